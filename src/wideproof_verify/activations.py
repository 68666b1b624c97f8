"""The activations in balls: value, slope, and proved constants of both."""

from wideproof_verify.arithmetic import arb


def _sigmoid(z: arb) -> arb:
    return 1 / (1 + (-z).exp())


# name: z -> (value, slope), and () -> (bound of |slope|, Lipschitz constant of the slope)
ACTIVATIONS = {
    "softplus": (lambda z: (z.exp().log1p(), _sigmoid(z)), lambda: (1, 0.25)),
    "sigmoid": (lambda z: (_sigmoid(z), _sigmoid(z) * _sigmoid(-z)), lambda: (0.25, 1 / (6 * arb(3).sqrt()))),
    "tanh": (lambda z: (z.tanh(), z.sech() * z.sech()), lambda: (1, 4 / (3 * arb(3).sqrt()))),
    "erf": (
        lambda z: (z.erf(), 2 * (-z * z).exp() / arb.pi().sqrt()),
        lambda: (2 / arb.pi().sqrt(), 4 / (2 * arb.pi() * arb(1).exp()).sqrt()),
    ),
    "arctan": (lambda z: (z.atan(), 1 / (1 + z * z)), lambda: (1, 3 * arb(3).sqrt() / 8)),
    "sin": (lambda z: (z.sin(), z.cos()), lambda: (1, 1)),
    "swish": (lambda z: (z * _sigmoid(z), _sigmoid(z) * (1 + z * _sigmoid(-z))), lambda: (arb("1.09984"), 0.5)),
    "gelu": (
        lambda z: (z * (p := (-z / arb(2).sqrt()).erfc() / 2), p + z * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()),
        lambda: (arb("1.12891"), (2 / arb.pi()).sqrt()),
    ),
    "mish": (  # t = tanh(log(1 + e^z))
        lambda z: (z * (t := 1 - 2 / (z.exp() * (z.exp() + 2) + 2)), t + z * (1 - t * t) * _sigmoid(z)),
        lambda: (arb("1.0885"), arb("0.64421")),
    ),
    "elu": (lambda z: (z.max(arb(0)) + z.min(arb(0)).expm1(), z.min(arb(0)).exp()), lambda: (1, 1)),
    "softsign": (lambda z: (z / (1 + abs(z)), 1 / (1 + abs(z)) / (1 + abs(z))), lambda: (1, 2)),
    "identity": (lambda z: (z, arb(1)), lambda: (1, 0)),
    "relu": (  # a fixed pattern: a sign that is not known gives the slope [0, 1], an exact zero the slope 0
        lambda z: (z.max(arb(0)), arb(1) if z > 0 else arb(0) if z <= 0 else arb(0.5, 0.5)),
        lambda: (1, 0),
    ),
}
# c with c E[σ(Z)²] = 1 for a standard normal Z, in the order above
C_SIGMA = dict(zip(ACTIVATIONS, (
    1.0854865029883434, 3.408559841623103, 2.5361754332174535, 2.1525788606075986, 2.223700160381501,
    2.3130352854993315, 2.810761124074471, 2.351715614073373, 2.210715729937989, 1.5505188080679273,
    5.46406222364552, 1.0, 2.0,
), strict=True))  # fmt: skip
