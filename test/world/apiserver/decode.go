// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// decode reads an object of a resource as it was sent, without defaults.
func decode(r *Resource, body []byte, contentType string) (client.Object, error) {
	object := newObject(r)
	if u, ok := object.(*unstructured.Unstructured); ok {
		u.Object = nil
		body, err := asJSON(body, contentType)
		if err != nil {
			return nil, err
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &u.Object); err != nil {
			return nil, malformed(r, body, err)
		}
	} else {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		if err := decodeInto(body, contentType, object); err != nil {
			return nil, malformed(r, body, err)
		}
	}
	switch kind := object.GetObjectKind().GroupVersionKind(); {
	case kind == r.kind():
	case kind.Empty() && r.definition == nil:
		object.GetObjectKind().SetGroupVersionKind(r.kind())
	case kind.Kind == "" || kind.Version == "":
		return nil, apierrors.NewBadRequest(`Object 'Kind' is missing in '` + string(body) + `'`)
	case kind.GroupVersion() != r.GroupVersion():
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", kind.GroupVersion(), r.GroupVersion()))
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: no kind %q is registered", r.Kind, r.Version, r.Kind, kind.Kind))
	}
	return object, nil
}

// asJSON turns YAML into JSON.
func asJSON(body []byte, contentType string) ([]byte, error) {
	if !strings.Contains(contentType, "yaml") {
		return body, nil
	}
	out, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

// decodeInto reads a typed object, also one that is no resource.
func decodeInto(body []byte, contentType string, object runtime.Object) error {
	if raw, found := bytes.CutPrefix(body, magic); found {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(raw); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		message, ok := object.(interface{ Unmarshal([]byte) error })
		if !ok {
			return apierrors.NewBadRequest("no protobuf of this kind")
		}
		if err := message.Unmarshal(unknown.Raw); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		object.GetObjectKind().SetGroupVersionKind(unknown.GroupVersionKind())
		return nil
	}
	body, err := asJSON(body, contentType)
	if err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func malformed(r *Resource, body []byte, err error) error {
	if _, syntax := (jsonserializer.SimpleMetaFactory{}).Interpret(body); syntax != nil && !bytes.HasPrefix(body, magic) {
		return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", r.Kind, syntax, body))
	}
	var known *apierrors.StatusError
	if errors.As(err, &known) {
		err = errors.New(known.ErrStatus.Message)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", r.Kind, r.Version, r.Kind, err))
}
