// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
)

var (
	uids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	address  = regexp.MustCompile(`\b10\.96\.\d+\.\d+\b`)
	suffix   = regexp.MustCompile(`\bgenerated-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	versions = regexp.MustCompile(`(current|version in record|in object meta|in the precondition|in record|in precondition)(:? \(?)\d+`)
)

// comparable makes a value equal to that of another server if it means the same: times, UIDs and versions differ.
func (s *Server) comparable(field string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		return s.comparableMap(v)
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			next := s.comparable(field, item)
			// The API server may find the same error twice.
			if field == "causes" && slices.ContainsFunc(out, func(one any) bool { return text(one) == text(next) }) {
				continue
			}
			out = append(out, next)
		}
		return out
	case string:
		switch field {
		case "continue", "resourceVersion":
			return "some"
		}
		v = uids.ReplaceAllString(v, "UID")
		v = times.ReplaceAllString(v, "TIME")
		v = address.ReplaceAllString(v, "ADDRESS")
		v = suffix.ReplaceAllString(v, "generated-xxxxx")
		return versions.ReplaceAllString(v, "$1$2 VERSION")
	}
	return value
}

// comparableMap also says whether an object has another version than when it was seen last.
func (s *Server) comparableMap(from map[string]any) map[string]any {
	out := make(map[string]any, len(from))
	for key, value := range from {
		switch key {
		case "managedFields", "selfLink":
			continue
		}
		out[key] = s.comparable(key, value)
	}
	uid, _ := from["uid"].(string)
	version, isObject := from["resourceVersion"].(string)
	if uid == "" || !isObject {
		return out
	}
	if s.seen == nil {
		s.seen = map[string]string{}
	}
	switch last, known := s.seen[uid]; {
	case !known:
		out["resourceVersion"] = "first"
	case last == version:
		out["resourceVersion"] = "same"
	default:
		out["resourceVersion"] = "new"
	}
	s.seen[uid] = version
	return out
}
