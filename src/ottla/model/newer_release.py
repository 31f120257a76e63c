"""What is said of data that a newer release of Ottla wrote."""

from ottla import __version__


def needs_newer_release(where: str, layout: object, known: object, release: str | None) -> str:
    """One line: what is too new, for whom, and what to start. `release` is None when the data does not name it.

    >>> needs_newer_release("/data/metadata.db", 3, 2, "0.4.0")
    '/data/metadata.db has layout 3 of Ottla 0.4.0, and this is Ottla 0.1.0, which reads layout 2: start Ottla 0.4.0 or
    newer; nothing was changed'
    """
    of, what = (f" of Ottla {release}", f"Ottla {release} or newer") if release else ("", "a newer release")
    return (
        f"{where} has layout {layout}{of}, and this is Ottla {__version__}, which reads layout {known}: start {what}; "
        "nothing was changed"
    )
