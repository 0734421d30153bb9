"""Whether the score on held-out rows says what new rows will show."""

from __future__ import annotations

from collections.abc import Sequence

from credo.data.leaks import Leak, Way
from credo.evaluation.values import Check, Rating

QUESTION = "Will new rows be predicted as well as the held-out ones?"


def trusted(leaks: Sequence[Leak], time: str | None = None, group: str | None = None) -> Check:
    """What speaks against it: a copy of the target is a mistake, order in time and groups depend on what is predicted.

    Args:
        leaks: that were found.
        time: column by which the latest rows were held out; None where it was not so.
        group: column whose values were held out as a whole; None where it was not so.
    """
    rating = Rating.POOR if any(leak.way is Way.COPY for leak in leaks) else Rating.FAIR
    if leaks:
        start = "Probably not" if rating is Rating.POOR else "Perhaps not"
        return Check(QUESTION, rating.value, f"{start}: {'; '.join(leak.sentence for leak in leaks)}.")
    if time is not None:
        return Check(
            QUESTION, Rating.GOOD.value, f"The latest rows by {time!r} were held out, as new rows will be later."
        )
    if group is not None:
        said = f"Yes: whole groups of {group!r} were held out, as those of new rows will be new."
        return Check(QUESTION, Rating.GOOD.value, said)
    said = (
        "if they come from where these come from: no column copies the target, and neither a drift in time nor groups"
    )
    return Check(QUESTION, Rating.GOOD.value, f"Yes, {said} of rows were found.")
