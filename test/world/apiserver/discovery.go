// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// typeAggregated is the discovery of all resources in one answer.
const typeAggregated = typeJSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// Minor is the minor version of Kubernetes after which the server is modelled.
const Minor = "1.37"

var serverVersion = apiversion.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2", GitTreeState: "clean", Platform: "linux/amd64", Compiler: "gc", GoVersion: "go1.26.0"}

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// discover answers what the server has.
func (s *Server) discover(c *call) answer {
	path := strings.Trim(c.URL.Path, "/")
	accept := c.Header.Get("Accept")
	mediaType, aggregates := typeJSON, strings.Contains(accept, "as=APIGroupDiscoveryList") && strings.Contains(accept, "v=v2;")
	var object any
	switch path {
	case "livez", "readyz", "healthz":
		return answer{code: http.StatusOK, mediaType: "text/plain; charset=utf-8", body: []byte("ok")}
	case "version":
		object = &serverVersion
	case "api", "apis":
		object = s.groups()
		if path == "api" {
			object = &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
		}
		if aggregates {
			mediaType, object = typeAggregated, s.aggregated(path == "api")
		}
	default:
		list := s.resources(groupVersionOf(path))
		if len(list.APIResources) == 0 {
			return answer{code: http.StatusNotFound, mediaType: "text/plain; charset=utf-8", body: []byte("404 page not found\n")}
		}
		object = list
	}
	return answer{code: http.StatusOK, mediaType: mediaType, body: append(encode(object, false), '\n')}
}

// groupVersionOf reads a path such as apis/batch/v1.
func groupVersionOf(path string) schema.GroupVersion {
	parts := strings.Split(path, "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}
	case len(parts) == 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	return schema.GroupVersion{}
}

// groupVersions are the groups in the order of their first resources, each with its versions.
func (s *Server) groupVersions() (groups []string, versions map[string][]string) {
	versions = map[string][]string{}
	for _, t := range s.tables {
		if !slices.Contains(groups, t.Group) {
			groups = append(groups, t.Group)
		}
		if !slices.Contains(versions[t.Group], t.Version) {
			versions[t.Group] = append(versions[t.Group], t.Version)
		}
	}
	return groups, versions
}

func (s *Server) serves(gv schema.GroupVersion) bool {
	return slices.ContainsFunc(s.tables, func(t *table) bool { return t.GroupVersion() == gv })
}

func (s *Server) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	groups, versions := s.groupVersions()
	for _, name := range groups {
		if name == "" {
			continue
		}
		group := metav1.APIGroup{Name: name}
		for _, v := range versions[name] {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
		}
		group.PreferredVersion = group.Versions[0]
		list.Groups = append(list.Groups, group)
	}
	return list
}

func (s *Server) resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for _, t := range s.tables {
		if t.GroupVersion() != gv {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: t.Resource.Resource, SingularName: t.singularName(), Namespaced: t.Namespaced, Kind: t.Kind, Verbs: allVerbs, ShortNames: t.shortNames,
		})
		for _, name := range t.subresources {
			kind, verbs := t.subresource(name)
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: t.Resource.Resource + "/" + name, Namespaced: t.Namespaced, Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Verbs: verbs,
			})
		}
	}
	return list
}

func (s *Server) aggregated(isCore bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	list.SetGroupVersionKind(apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	groups, versions := s.groupVersions()
	for _, name := range groups {
		if (name == "") != isCore {
			continue
		}
		group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, v := range versions[name] {
			group.Versions = append(group.Versions, apidiscoveryv2.APIVersionDiscovery{
				Version: v, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Resources: s.aggregatedResources(schema.GroupVersion{Group: name, Version: v}),
			})
		}
		list.Items = append(list.Items, group)
	}
	return list
}

func (s *Server) aggregatedResources(gv schema.GroupVersion) (resources []apidiscoveryv2.APIResourceDiscovery) {
	for _, t := range s.tables {
		if t.GroupVersion() != gv {
			continue
		}
		kind := metav1.GroupVersionKind(t.kind())
		r := apidiscoveryv2.APIResourceDiscovery{
			Resource: t.Resource.Resource, ResponseKind: &kind, Scope: apidiscoveryv2.ScopeCluster, SingularResource: t.singularName(),
			Verbs: allVerbs, ShortNames: t.shortNames,
		}
		if t.Namespaced {
			r.Scope = apidiscoveryv2.ScopeNamespace
		}
		for _, name := range t.subresources {
			kind, verbs := t.subresource(name)
			response := metav1.GroupVersionKind(kind)
			r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: name, ResponseKind: &response, Verbs: verbs})
		}
		resources = append(resources, r)
	}
	return resources
}

func (r *Resource) singularName() string {
	if r.singular != "" {
		return r.singular
	}
	return strings.ToLower(r.Kind)
}

func (r *Resource) subresource(name string) (schema.GroupVersionKind, []string) {
	switch name {
	case "binding":
		return schema.GroupVersionKind{Version: "v1", Kind: "Binding"}, []string{"create"}
	case "eviction":
		return schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, []string{"create"}
	}
	return r.kind(), []string{"get", "patch", "update"}
}
