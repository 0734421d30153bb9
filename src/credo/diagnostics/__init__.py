"""Whether a run can be trusted: verdicts on draws, approximations and gradients."""

from credo.core.pareto import fit_generalized_pareto, pareto_k
from credo.diagnostics.agreement import Agreement, ClassAgreement, NumericAgreement, agreement
from credo.diagnostics.convergence import Convergence, convergence
from credo.diagnostics.gradients import gradient_draws
from credo.diagnostics.variational import Trust, trust

__all__ = [
    "Agreement",
    "ClassAgreement",
    "Convergence",
    "NumericAgreement",
    "Trust",
    "agreement",
    "convergence",
    "fit_generalized_pareto",
    "gradient_draws",
    "pareto_k",
    "trust",
]
