# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""The classes of fluxelastic.models as scripts for the Flux Operator make them: a field that does not exist is left out.

Values may be objects, or dictionaries with either kind of names: min_size or minSize.
"""
from __future__ import annotations

import dataclasses
import inspect
import warnings
from typing import Any, Dict, Optional

from .. import models
from .._model import Model


class _Lenient(Model):
    """What makes a class of fluxelastic.models accept any name, with a warning for one that does not exist."""

    def __init__(self, **values: Any) -> None:
        of = type(self).__mro__[2]
        names = {name: f for f in dataclasses.fields(of) for name in (f.name, f.metadata["json"])}  # type: ignore[arg-type]
        known: Dict[str, Any] = {}
        for name, value in values.items():
            if name in names:
                known[names[name].name] = _read(names[name], value)
            elif value is not None:
                warnings.warn(f"{of.__name__} has no field {name}, which is left out", stacklevel=2)
        of.__init__(self, **known)  # type: ignore[misc]


def _read(field: Any, value: Any) -> Any:
    """Make objects of the dictionaries in a field that has objects."""
    of = _classes.get(field.metadata["of"])
    if of is None:
        return value
    if isinstance(value, list):
        return [_read(field, item) for item in value]
    if isinstance(value, dict) and field.type.startswith("Optional[Dict["):
        return {key: of(**item) if isinstance(item, dict) else item for key, item in value.items()}
    return of(**value) if isinstance(value, dict) else value


_classes: Dict[Any, Any] = {
    name: type(name, (_Lenient, of), {"__module__": __name__, "__doc__": of.__doc__})
    for name, of in inspect.getmembers(models, dataclasses.is_dataclass)
}
globals().update(_classes)


def ContainerResources(limits: Optional[Dict[str, Any]] = None, requests: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:  # noqa: N802
    """Return the resources of a container."""
    return {name: value for name, value in (("limits", limits), ("requests", requests)) if value}


def SecurityContext(privileged: Optional[bool] = None, add_capabilities: Optional[list] = None) -> Dict[str, Any]:  # noqa: N802
    """Return the security context of a container, as Kubernetes has it."""
    out: Dict[str, Any] = {} if privileged is None else {"privileged": privileged}
    if add_capabilities:
        out["capabilities"] = {"add": add_capabilities}
    return out


def _gone(name: str) -> Any:
    def make(**values: Any) -> Dict[str, Any]:
        return values

    make.__name__ = name
    make.__doc__ = f"Return the values of a {name}, which v1alpha2 does not have: the field that gets the values is left out."
    return make


# Of v1alpha1: MiniClusterSpec leaves out the fields that have these.
FluxRestful, FluxUser, MiniClusterUser = _gone("FluxRestful"), _gone("FluxUser"), _gone("MiniClusterUser")
MiniClusterVolume, MiniClusterExistingVolume = _gone("MiniClusterVolume"), _gone("MiniClusterExistingVolume")

__all__ = [*_classes, "ContainerResources", "FluxRestful", "FluxUser", "MiniClusterExistingVolume", "MiniClusterUser",
           "MiniClusterVolume", "SecurityContext"]
