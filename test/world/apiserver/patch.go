// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"
)

// patch changes an object by a patch. A patch that names a resource version is refused if that is an old one.
func (w *write) patch(kind types.PatchType, data []byte) (*version, error) {
	if err := w.checkPatch(kind, data); err != nil {
		return nil, err
	}
	old, err := w.server.find(w.table, w.key)
	if err != nil {
		return nil, err
	}
	object, err := w.patched(old, kind, data)
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

// patched is an object with a patch. The status of a custom resource is patched without encoding the object.
func (w *write) patched(old *version, kind types.PatchType, data []byte) (client.Object, error) {
	before, isCustom := old.object.(*unstructured.Unstructured)
	if isCustom && kind == types.MergePatchType && w.subresource == "status" {
		var patch map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return &unstructured.Unstructured{Object: mergeJSON(before.Object, patch).(map[string]any)}, nil
	}
	out, err := w.applyPatch(old, kind, data)
	if err != nil {
		return nil, err
	}
	return decode(w.table.Resource, out, typeJSON)
}

func (w *write) applyPatch(old *version, kind types.PatchType, data []byte) ([]byte, error) {
	before := old.bytes(inJSON)
	switch kind {
	case types.MergePatchType:
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
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return out, nil
	case types.StrategicMergePatchType:
		out, err := strategicpatch.StrategicMergePatch(before, data, newObject(w.table.Resource))
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return out, nil
	}
	return nil, nil // checkPatch has refused it
}

// checkPatch refuses kinds of patches that the resource does not have, and what is no JSON.
func (w *write) checkPatch(kind types.PatchType, data []byte) error {
	switch {
	case kind == types.StrategicMergePatchType && w.table.definition == nil, kind == types.JSONPatchType, kind == types.MergePatchType:
	case w.table.definition == nil:
		return unsupported("415: Unsupported Media Type")
	default:
		err := unsupported("the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
		err.ErrStatus.Details = nil
		return err
	}
	if json.Valid(data) {
		return nil
	}
	var content any
	if err := json.Unmarshal(data, &content); err != nil {
		return apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	return nil
}

func unsupported(message string) *apierrors.StatusError {
	err := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "PATCH", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Message, err.ErrStatus.Reason = message, metav1.StatusReasonUnsupportedMediaType
	return err
}
