"""Numbers with as many digits as they carry."""

from __future__ import annotations

import math


def rounded(value: float, error: float | None) -> str:
    """A number up to the second digit of its error.

    Args:
        value: the number.
        error: its standard error; where there is none, three digits are shown.

    Examples:
        >>> rounded(58.372, 4.43), rounded(58.372, 0.443), rounded(58372.0, 4430.0), rounded(0.00123, 0.0004)
        ('58.4', '58.37', '58,400', '0.00123')
    """
    if error is None or not math.isfinite(error) or error <= 0.0 or not math.isfinite(value):
        return number(value)
    digits = 1 - math.floor(math.log10(error))
    if digits > 9 or digits < -9 or abs(value) >= 1e9:
        return number(value)
    return f"{round(value, digits) + 0.0:,.{max(digits, 0)}f}"  # + 0.0: no negative zero


def number(value: float) -> str:
    """Three significant digits, without an exponent where possible.

    Examples:
        >>> number(1234.5), number(0.012345), number(47.98), number(5.0)
        ('1,230', '0.0123', '48.0', '5')
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    if digits < -9 or digits > 9:
        return f"{value:.2e}"
    return f"{round(value, digits):,.{0 if value == round(value) else max(digits, 0)}f}"


def percent(part: float) -> str:
    """A proportion as a person says it.

    Examples:
        >>> percent(0.947).split(), percent(0.0046).split()
        (['95', '%'], ['0.5', '%'])
    """
    digits = 1 if 0.0 < part < 0.0095 or 0.9905 < part < 1.0 else 0
    return f"{100 * part:.{digits}f}\u00a0%"  # a space that does not break the line


def with_error(value: float, error: float | None, *, share: bool = False) -> str:
    """A number and its standard error.

    Args:
        value: the number.
        error: its standard error; None for none.
        share: whether it is a part of the rows.

    Examples:
        >>> with_error(58.372, 4.43), with_error(58.372, None)
        ('58.4 ± 4.4', '58.4')
    """
    if share:
        return percent(value) if not error else f"{percent(value)} ± {percent(error)}"
    text = rounded(value, error)
    return text if not error or not math.isfinite(error) else f"{text} ± {rounded(error, error)}"
