"""What lists share: their order and their page are in the address, and lead to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from ..schemas import Part

PER_PAGE = 25
MOST_PAGES = 10**6
L = TypeVar("L", bound="ListSettings")


class ListSettings(Part):
    """Base of what a list's address may say. What is not known is somebody else's: the Hub takes
    along whatever an address had when it sends a browser on. What cannot be is left out too: the
    list is there without it, and says which it is."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sort: str | None = None  # None: as usual
    page: int = Field(default=1, ge=1, le=MOST_PAGES)

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_usual(
        cls, value: object, check: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        try:
            return check(value)
        except ValidationError:
            return cls.model_fields[info.field_name or ""].default

    @property
    def usual_sort(self) -> str:
        """How the list is sorted where its address does not say."""
        raise NotImplementedError

    @property
    def order(self) -> Any:
        """What the list is sorted by, as the store names it."""
        return (self.sort or self.usual_sort).removeprefix("-")

    @property
    def descending(self) -> bool:
        return (self.sort or self.usual_sort).startswith("-")

    def part(self) -> dict[str, Any]:
        """The page of the list and its order, as the store takes them."""
        return {
            "order": self.order, "descending": self.descending,
            "limit": PER_PAGE, "offset": (self.page - 1) * PER_PAGE,
        }  # fmt: skip

    def within(self: L, total: int) -> L:
        """The same list at its last page where it has none with this number."""
        last = max(1, -(-total // PER_PAGE))
        return self if self.page <= last else self.model_copy(update={"page": last})

    def address(self, path: str, /, **other: object) -> str:
        """The address of this list, with other settings; what is at its default is left out."""
        given = {**self.model_dump(mode="json", exclude_defaults=True), **other}
        fields = type(self).model_fields
        told = {n: v for n, v in given.items() if v not in (None, "", fields[n].default)}
        return f"{path}?{urlencode(told)}" if told else path

    def pages(self, path: str, total: int) -> dict[str, Any]:
        """Where in the list this page is, and the addresses beside it; "" where there is none."""
        return {
            "total": total, "first": (self.page - 1) * PER_PAGE + 1,
            "previous": self.address(path, page=self.page - 1) if self.page > 1 else "",
            "next": self.address(path, page=self.page + 1) if self.page * PER_PAGE < total else "",
        }  # fmt: skip

    def columns(
        self, path: str, columns: Sequence[tuple[str, str, str]]
    ) -> Iterator[dict[str, str]]:
        """Heads of columns, given as title, class and what they are sorted by ("": they are not);
        each leads to the list in its order, and the one that it is in to the other way round."""
        for title, kind, key in columns:
            here, down = bool(key) and self.order == key, self.descending
            order = ("descending" if down else "ascending") if here else ""
            href = self.address(path, page=1, sort=key if here and down else f"-{key}")
            yield {"title": title, "kind": kind, "order": order, "href": href if key else ""}
