"""An error that names the field that cannot be decoded.

```
 RefusedField.within("n", ValueError("1.5 is not an int"))           field n: 1.5 is not an int
 RefusedField.within("[0]", the one above)                       field [0].n: 1.5 is not an int
 RefusedField.within("lines", the one above)                     field lines[0].n: 1.5 is not an int
```
"""


class RefusedField(ValueError):  # noqa: N818
    """A field that cannot be read into its column. The message names it from the outermost field on."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"field {path}: {reason}")
        self.path = path
        self.reason = reason

    @classmethod
    def within(cls, name: str, error: ValueError) -> "RefusedField":
        """The same error, as seen from outside of the field `name`."""
        if isinstance(error, RefusedField):
            return cls(f"{name}{'' if error.path.startswith('[') else '.'}{error.path}", error.reason)
        return cls(name, str(error))
