# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""What all classes of models have: how they are read from and written as the dictionaries that the API has."""
from __future__ import annotations

import dataclasses
import difflib
import re
import sys
from datetime import datetime, timezone
from typing import Any, Dict, Optional


def field(json: str, of: Any = None) -> Any:
    """A field with its name in the API. `of` is the name of the class of the objects in the field, or datetime."""
    return dataclasses.field(default=None, metadata={"json": json, "of": of})


def parse_time(text: Any) -> Optional[datetime]:
    """Read a time of the API."""
    if text is None or isinstance(text, datetime):
        return text
    text = re.sub(r"\.(\d+)", lambda part: "." + part[1][:6].ljust(6, "0"), text)  # Python 3.9 reads six digits
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def format_time(time: Optional[datetime]) -> Optional[str]:
    """Write a time as the API does."""
    if time is None:
        return None
    return time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def plain(value: Any) -> Any:
    """Return what JSON has for a value, also for an object of the packages kubernetes and numpy."""
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    names = getattr(value, "attribute_map", None)
    if names is not None:
        all_of_it = {json: plain(getattr(value, name)) for name, json in names.items()}
        return {json: item for json, item in all_of_it.items() if item is not None}
    return value


class _Names:
    """The names of the fields in the API by the names of the attributes, as in the classes of the package kubernetes."""

    def __get__(self, _instance: Any, owner: Any) -> Dict[str, str]:
        return {f.name: f.metadata["json"] for f in dataclasses.fields(owner)}


class Model:
    """An object of the API. A field that is None is not sent."""

    # By these two the package kubernetes writes its own objects, and so it accepts these.
    attribute_map = _Names()
    openapi_types = _Names()

    @classmethod
    def from_dict(cls, data: Any, strict: bool = False) -> Any:
        """Read a dictionary with the names of the API. With strict, a name that does not exist is a ValueError."""
        if data is None or isinstance(data, cls):
            return data
        if not isinstance(data, dict):
            raise ValueError(f"{cls.__name__} is {data!r}, and no dictionary")
        known = {f.metadata["json"]: f for f in dataclasses.fields(cls)}
        if strict:
            for name in data:
                if name not in known:
                    raise ValueError(f"{cls.__name__} has no field {name}{nearest(name, known)}")
        return cls(**{known[name].name: cls._read(known[name], value, strict) for name, value in data.items() if name in known})

    @classmethod
    def _read(cls, of_field: Any, value: Any, strict: bool) -> Any:
        of = of_field.metadata["of"]
        if of is None or value is None:
            return value
        if isinstance(value, list):
            return [cls._read(of_field, item, strict) for item in value]
        if of is datetime:
            return parse_time(value)
        model = getattr(sys.modules[cls._module()], of)
        if of_field.type.startswith("Optional[Dict["):
            return {key: model.from_dict(item, strict) for key, item in value.items()}
        return model.from_dict(value, strict)

    @classmethod
    def _module(cls) -> str:
        """The module with the classes of the fields: that of the class that make generate wrote."""
        return next(c.__module__ for c in cls.__mro__ if "__dataclass_fields__" in vars(c))

    def to_dict(self) -> Dict[str, Any]:
        """Return a dictionary with the names of the API."""
        values = {f.metadata["json"]: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {json: plain(value) for json, value in values.items() if value is not None}


def nearest(name: str, known: Any) -> str:
    """Return the end of a sentence about a name that does not exist: what may have been meant."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {found[0]}?" if found else ""
