"""How to cite the papers, and this software."""

BIBTEX = {
    "zou2018": """@article{zou2018stochastic,
  title   = {Stochastic Gradient Descent Optimizes Over-parameterized Deep {ReLU} Networks},
  author  = {Zou, Difan and Cao, Yuan and Zhou, Dongruo and Gu, Quanquan},
  journal = {arXiv preprint arXiv:1811.08888},
  year    = {2018}
}""",
    "du2019": """@inproceedings{du2019gradient,
  title     = {Gradient Descent Finds Global Minima of Deep Neural Networks},
  author    = {Du, Simon S. and Lee, Jason D. and Li, Haochuan and Wang, Liwei and Zhai, Xiyu},
  booktitle = {Proceedings of the 36th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {97},
  pages     = {1675--1685},
  year      = {2019}
}""",
    "allenzhu2018": """@inproceedings{allenzhu2019rnn,
  title     = {On the Convergence Rate of Training Recurrent Neural Networks},
  author    = {Allen-Zhu, Zeyuan and Li, Yuanzhi and Song, Zhao},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019},
  note      = {arXiv:1810.12065}
}""",
    "frei2019": """@inproceedings{frei2019algorithm,
  title     = {Algorithm-Dependent Generalization Bounds for Overparameterized Deep Residual Networks},
  author    = {Frei, Spencer and Cao, Yuan and Gu, Quanquan},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019}
}""",
    "wideproof": """@software{wideproof,
  title   = {Wideproof: wide neural networks, trained and proved to reach a global minimum},
  version = {VERSION}
}""",
}
