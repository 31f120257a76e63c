"""Topics that come and go by hand, as the groups of a broker know them."""

from uuid import UUID


class Topics:
    """The id of each topic by its name; call it as `TopicIdOf`. A topic made again has another id."""

    def __init__(self, *names: str) -> None:
        self._ids: dict[str, UUID] = {}
        self._count = 0
        for name in names:
            self.create(name)

    def __call__(self, name: str) -> UUID | None:
        return self._ids.get(name)

    def __getitem__(self, name: str) -> UUID:
        return self._ids[name]

    def create(self, name: str) -> None:
        """Make a topic, with an id that none had before."""
        self._count += 1
        self._ids[name] = UUID(int=self._count)

    def delete(self, name: str) -> None:
        """The name is free again."""
        del self._ids[name]
