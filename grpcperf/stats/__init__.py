"""How sure a number is. Every method names its source; numpy is imported when one is asked for, never with
the package."""

from grpcperf.stats.intervals import (
    CONFIDENCE,
    FEWEST_WINDOWS,
    Interval,
    block_length,
    order_statistic_interval,
    quantile_interval,
    rate_interval,
    student_t,
)
from grpcperf.stats.means import mean_interval, paired_ratio, ratio_of_means
from grpcperf.stats.slopes import Cost, Line, common_slope, fit_cost
from grpcperf.stats.steady import warmup_end
from grpcperf.stats.usl import Usl, fit_usl

__all__ = [
    "CONFIDENCE",
    "FEWEST_WINDOWS",
    "Cost",
    "Interval",
    "Line",
    "Usl",
    "block_length",
    "common_slope",
    "fit_cost",
    "fit_usl",
    "mean_interval",
    "order_statistic_interval",
    "paired_ratio",
    "quantile_interval",
    "rate_interval",
    "ratio_of_means",
    "student_t",
    "warmup_end",
]
