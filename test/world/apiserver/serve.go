// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type statusObject = runtime.Object

func (s *Server) get(c *call) (answer, error) {
	v, err := s.find(c.table, c.key())
	if err != nil {
		return answer{}, err
	}
	return c.stored(http.StatusOK, v), nil
}

func (s *Server) find(t *table, k key) (*version, error) {
	if v := t.objects[k]; v != nil {
		return v, nil
	}
	return nil, apierrors.NewNotFound(t.GroupResource(), k.Name)
}

func (s *Server) listOrWatch(c *call) (answer, error) {
	var o metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&c.query, &o, nil); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	sel, err := newSelector(c.table, c.path.namespace, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return answer{}, err
	}
	e := encodingOf(c.Header.Get("Accept"), c.table.Resource)
	if o.Watch {
		stream, err := s.watch(c.Context(), c.user, c.table, &o, sel, e)
		if err != nil {
			return answer{}, err
		}
		return answer{code: http.StatusOK, mediaType: e.mediaType(), stream: stream}, nil
	}
	versions, meta, err := s.list(c.table, sel, &o)
	if err != nil {
		return answer{}, err
	}
	return answer{code: http.StatusOK, mediaType: e.mediaType(), body: list(c.table, versions, meta, e)}, nil
}

// list selects objects, with limit and continue. A list that goes on shows the newest objects.
func (s *Server) list(t *table, sel selector, o *metav1.ListOptions) ([]*version, metav1.ListMeta, error) {
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(s.version, 10)}
	asked, err := parseVersion(o.ResourceVersion)
	if err != nil {
		return nil, meta, err
	}
	if asked > s.version {
		return nil, meta, tooLarge(asked, s.version)
	}
	versions := s.selected(t, sel)
	if o.Continue != "" {
		last, err := base64.RawURLEncoding.DecodeString(o.Continue)
		if err != nil {
			return nil, meta, apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", err))
		}
		namespace, name, _ := strings.Cut(string(last), "/")
		versions = slices.DeleteFunc(versions, func(v *version) bool {
			return compareKeys(v.key, key{Namespace: namespace, Name: name}) <= 0
		})
	}
	if o.Limit > 0 && int64(len(versions)) > o.Limit {
		rest := int64(len(versions)) - o.Limit
		versions = versions[:o.Limit]
		last := versions[o.Limit-1].key
		meta.Continue = base64.RawURLEncoding.EncodeToString([]byte(last.Namespace + "/" + last.Name))
		if sel.labels.Empty() && sel.fields.Empty() {
			meta.RemainingItemCount = &rest
		}
	}
	return versions, meta, nil
}

// begin makes the write that a request asks for.
func (s *Server) begin(c *call, verb string, dryRun []string, manager string) (*write, error) {
	if errs := validation.ValidateDryRun(field.NewPath("dryRun"), dryRun); len(errs) > 0 {
		kind := strings.ToUpper(verb[:1]) + verb[1:] + "Options"
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	if manager == "" {
		manager, _, _ = strings.Cut(c.Header.Get("User-Agent"), "/")
	}
	return &write{
		server: s, user: c.user, verb: verb, table: c.table, subresource: c.path.subresource, key: c.key(),
		dryRun: len(dryRun) > 0, manager: manager,
	}, nil
}

func (s *Server) post(c *call) (answer, error) {
	var o metav1.CreateOptions
	if err := metav1.Convert_url_Values_To_v1_CreateOptions(&c.query, &o, nil); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	w, err := s.begin(c, "create", o.DryRun, o.FieldManager)
	if err != nil {
		return answer{}, err
	}
	if c.path.subresource != "" {
		status, err := w.act(c)
		if err != nil {
			return answer{}, err
		}
		return c.object(int(status.Code), status), nil
	}
	object, err := decode(c.table.Resource, c.body, c.Header.Get("Content-Type"))
	if err != nil {
		return answer{}, err
	}
	v, err := w.create(object)
	if err != nil {
		return answer{}, err
	}
	return c.stored(http.StatusCreated, v), nil
}

func (s *Server) put(c *call) (answer, error) {
	var o metav1.UpdateOptions
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&c.query, &o, nil); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	w, err := s.begin(c, "update", o.DryRun, o.FieldManager)
	if err != nil {
		return answer{}, err
	}
	object, err := decode(c.table.Resource, c.body, c.Header.Get("Content-Type"))
	if err != nil {
		return answer{}, err
	}
	v, created, err := w.update(object)
	if err != nil {
		return answer{}, err
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	return c.stored(code, v), nil
}

func (s *Server) servePatch(c *call) (answer, error) {
	var o metav1.PatchOptions
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&c.query, &o, nil); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	w, err := s.begin(c, "patch", o.DryRun, o.FieldManager)
	if err != nil {
		return answer{}, err
	}
	mediaType, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";")
	v, err := w.patch(types.PatchType(mediaType), c.body)
	if err != nil {
		return answer{}, err
	}
	return c.stored(http.StatusOK, v), nil
}

func (s *Server) serveDelete(c *call) (answer, error) {
	o, err := deleteOptions(c)
	if err != nil {
		return answer{}, err
	}
	w, err := s.begin(c, "delete", o.DryRun, "")
	if err != nil {
		return answer{}, err
	}
	if c.path.name == "" {
		return s.deleteCollection(c, w, o)
	}
	v, deleted, err := w.delete(o)
	if err != nil {
		return answer{}, err
	}
	// A pod, or an object that goes later, is the answer; otherwise a status: returnDeletedObject in the registry.
	if !deleted || c.table.answersDeleted() {
		return c.stored(http.StatusOK, v), nil
	}
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
			Name: v.key.Name, Group: c.table.Group, Kind: c.table.Resource.Resource, UID: v.object.GetUID(),
		},
	}
	return c.object(http.StatusOK, status), nil
}

// deleteOptions come in the body, or else in the query.
func deleteOptions(c *call) (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	if len(c.body) > 0 {
		if err := decodeInto(c.body, c.Header.Get("Content-Type"), o); err != nil {
			return nil, err
		}
		return o, nil
	}
	if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&c.query, o, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}
