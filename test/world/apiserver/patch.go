// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patch changes an object by a patch. A patch that names a resource version is refused if that is an old one.
func (w *write) patch(kind types.PatchType, data []byte) (*version, error) {
	old, err := w.server.find(w.table, w.key)
	if err != nil {
		return nil, err
	}
	patched, err := w.applyPatch(old, kind, data)
	if err != nil {
		return nil, err
	}
	object, err := decode(w.table.Resource, patched, typeJSON)
	if err != nil {
		return nil, err
	}
	if object.GetName() != w.key.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", object.GetName(), w.key.Name))
	}
	if object.GetNamespace() != w.key.Namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the URL (%s)", object.GetNamespace(), w.key.Namespace))
	}
	return w.replace(old, object)
}

func (w *write) applyPatch(old *version, kind types.PatchType, data []byte) ([]byte, error) {
	before := old.bytes(inJSON)
	switch kind {
	case types.MergePatchType:
		if !json.Valid(data) {
			return nil, apierrors.NewBadRequest("error decoding patch: invalid JSON")
		}
		out, err := jsonpatch.MergePatch(before, data)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return out, nil
	case types.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(data)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		out, err := operations.Apply(before)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(422, "", w.table.GroupVersionResource.GroupResource(), w.key.Name, err.Error(), 0, false)
		}
		return out, nil
	case types.StrategicMergePatchType:
		if w.table.definition == nil {
			out, err := strategicpatch.StrategicMergePatch(before, data, newObject(w.table.Resource))
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			return out, nil
		}
	}
	err := apierrors.NewGenericServerResponse(415, "PATCH", w.table.GroupVersionResource.GroupResource(), w.key.Name, "", 0, false)
	err.ErrStatus.Message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json"
	return nil, err
}
