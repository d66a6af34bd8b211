// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// encoding is how the objects of an answer are written.
type encoding int

const (
	inJSON encoding = iota
	inProtobuf
	metadataInJSON // PartialObjectMetadata
	metadataInProtobuf
	encodings
)

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// magic begins every object in protobuf.
var magic = []byte{'k', '8', 's', 0}

// partialKind is the kind of an object of which only the metadata is sent.
var partialKind = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadata"}

func (e encoding) isProtobuf() bool { return e == inProtobuf || e == metadataInProtobuf }
func (e encoding) isMetadata() bool { return e == metadataInJSON || e == metadataInProtobuf }

func (e encoding) mediaType() string {
	if e.isProtobuf() {
		return typeProtobuf
	}
	return typeJSON
}

// encodingOf chooses the encoding that a client prefers. Custom resources have no protobuf, but their metadata has.
func encodingOf(accept string, r *Resource) encoding {
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, parameters, _ := strings.Cut(strings.TrimSpace(clause), ";")
		partial := strings.Contains(parameters, "as=PartialObjectMetadata")
		if strings.Contains(parameters, "as=") && !partial {
			continue // a table
		}
		switch {
		case mediaType == typeProtobuf && partial:
			return metadataInProtobuf
		case mediaType == typeProtobuf && (r == nil || r.definition == nil):
			return inProtobuf
		case mediaType == typeProtobuf:
			continue
		case partial:
			return metadataInJSON
		}
		return inJSON
	}
	return inJSON
}

// bytes are an object in an encoding: in protobuf without the envelope.
func (v *version) bytes(e encoding) []byte {
	if v.encoding[e] == nil {
		object := runtime.Object(v.object)
		if e.isMetadata() {
			object = partial(v)
		}
		v.encoding[e] = encode(object, e.isProtobuf())
	}
	return v.encoding[e]
}

func encode(object any, protobuf bool) []byte {
	var data []byte
	var err error
	if u, ok := object.(*unstructured.Unstructured); ok {
		object = u.Object
	}
	if protobuf {
		data, err = object.(interface{ Marshal() ([]byte, error) }).Marshal()
	} else {
		data, err = json.Marshal(object)
	}
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", object, err)) // the server has made this object itself
	}
	return data
}

func partial(v *version) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{}
	p.SetGroupVersionKind(partialKind)
	if u, ok := v.object.(*unstructured.Unstructured); ok {
		data := encode(u.Object["metadata"], false)
		if err := json.Unmarshal(data, &p.ObjectMeta); err != nil {
			panic(err) // checked when it was written
		}
		return p
	}
	p.ObjectMeta = *part(v.object, "ObjectMeta", "").(*metav1.ObjectMeta)
	return p
}

func (v *version) sentKind(e encoding) schema.GroupVersionKind {
	if e.isMetadata() {
		return partialKind
	}
	return v.table.kind()
}

// whole is an object in an encoding as an answer has it.
func (v *version) whole(e encoding) []byte {
	data := v.bytes(e)
	if !e.isProtobuf() {
		return append(data[:len(data):len(data)], '\n')
	}
	return enveloped(v.sentKind(e), data)
}

func enveloped(kind schema.GroupVersionKind, raw []byte) []byte {
	apiVersion, name := kind.ToAPIVersionAndKind()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: name}, Raw: raw}
	data := encode(&unknown, true)
	return append(magic[:len(magic):len(magic)], data...)
}

// whole writes any other object of the API: statuses and what the server makes for one answer.
func whole(object runtime.Object, protobuf bool) []byte {
	data := encode(object, protobuf)
	if !protobuf {
		return append(data, '\n')
	}
	return enveloped(object.GetObjectKind().GroupVersionKind(), data)
}

// list writes a list of objects.
func list(t *table, versions []*version, meta metav1.ListMeta, e encoding) []byte {
	kind := t.GroupVersion().WithKind(t.listKind)
	if e.isMetadata() {
		kind = partialKind.GroupVersion().WithKind("PartialObjectMetadataList")
	}
	if e.isProtobuf() {
		// Every list has its metadata in field 1 and its items in field 2.
		raw := appendField(nil, 1, encode(&meta, true))
		for _, v := range versions {
			raw = appendField(raw, 2, v.bytes(e))
		}
		return enveloped(kind, raw)
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, name, apiVersion, encode(meta, false))
	for i, v := range versions {
		if i > 0 {
			out.WriteByte(',')
		}
		item := v.bytes(e)
		if t.definition == nil && !e.isMetadata() {
			item = withoutKind(item, t.kind())
		}
		out.Write(item)
	}
	out.WriteString("]}\n")
	return out.Bytes()
}

// withoutKind takes the kind away from an object in JSON: the items of lists of built-in kinds have none.
func withoutKind(item []byte, kind schema.GroupVersionKind) []byte {
	apiVersion, name := kind.ToAPIVersionAndKind()
	prefix := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, name, apiVersion)
	if !bytes.HasPrefix(item, []byte(prefix)) {
		return item
	}
	return append([]byte{'{'}, item[len(prefix):]...)
}

func appendField(out []byte, number int, data []byte) []byte {
	out = binary.AppendUvarint(out, uint64(number)<<3|2)
	out = binary.AppendUvarint(out, uint64(len(data)))
	return append(out, data...)
}

// frame is an event of a watch with an object that is written already.
func frame(what watch.EventType, object []byte, e encoding) []byte {
	if !e.isProtobuf() {
		out := append([]byte(`{"type":"`), what...)
		out = append(out, `","object":`...)
		out = append(out, bytes.TrimSuffix(object, []byte{'\n'})...)
		return append(out, '}', '\n')
	}
	data := encode(&metav1.WatchEvent{Type: string(what), Object: runtime.RawExtension{Raw: object}}, true)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// bookmark is an object that has a resource version alone.
func bookmark(t *table, number uint64, isEndOfInitial bool, e encoding) []byte {
	object := newObject(t.Resource)
	object.SetResourceVersion(strconv.FormatUint(number, 10))
	if isEndOfInitial {
		object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	v := &version{table: t, object: object}
	return v.whole(e)
}
