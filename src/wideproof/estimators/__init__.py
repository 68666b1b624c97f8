"""Estimators for scikit-learn: infinitely wide networks as kernels, and finite ones trained by gradient descent.

NTKRegressor().fit(X, y).predict(X_new, return_std=True)
NTKClassifierCV(depths=(1, 2, 3), activations=("relu", "erf", "gelu")).fit(X, y).best_params_
SVC(kernel=NTKKernel(depth=3)).fit(X, y)
WideNetClassifier(width=512, certify=True).fit(X, y).certificate_
"""

from wideproof.estimators.classifier import NTKClassifier as NTKClassifier
from wideproof.estimators.gaussian_process import NTKKernel as NTKKernel
from wideproof.estimators.influence import Influence as Influence
from wideproof.estimators.limit_kernel import LimitKernel as LimitKernel
from wideproof.estimators.regressor import NTKRegressor as NTKRegressor
from wideproof.estimators.search import NTKClassifierCV as NTKClassifierCV
from wideproof.estimators.search import NTKRegressorCV as NTKRegressorCV
from wideproof.estimators.transformer import InputPreparation as InputPreparation
from wideproof.estimators.unseen import Unseen as Unseen
from wideproof.estimators.wide_net import WideNetClassifier as WideNetClassifier
from wideproof.estimators.wide_net import WideNetRegressor as WideNetRegressor
