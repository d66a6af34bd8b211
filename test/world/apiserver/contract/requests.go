// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"net/http"
	"slices"
)

// Types of patches.
const (
	merge     = "merge-patch"
	strategic = "strategic-merge-patch"
	jsonPatch = "json-patch"
)

// nobody schedules the pods of these requests, and no controller acts on the Jobs and MiniClusters.
const (
	podSpec = `"schedulerName":"nobody","automountServiceAccountToken":false,"containers":[{"name":"a","image":"registry/a:1","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2","memory":"1Gi"}},
	  "ports":[{"containerPort":80}],"readinessProbe":{"exec":{"command":["true"]}},"env":[{"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],"volumeMounts":[{"name":"v","mountPath":"/v"}]}],
	  "volumes":[{"name":"v","secret":{"secretName":"s"}},{"name":"e","emptyDir":{}},{"name":"c","configMap":{"name":"c"}},{"name":"d","downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.labels"}}]}}]`
	jobSpec = `"managedBy":"example.com/nobody","template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}`
)

func post(name, path, body string) Request {
	return Request{Name: name, Method: http.MethodPost, Path: path, Body: body}
}

func put(name, path, body string) Request {
	return Request{Name: name, Method: http.MethodPut, Path: path, Body: body}
}

func patch(name, kind, path, body string) Request {
	return Request{Name: name, Method: http.MethodPatch, Type: kind, Path: path, Body: body}
}

func remove1(name, path, body string) Request {
	return Request{Name: name, Method: http.MethodDelete, Path: path, Body: body}
}

func get(name, path string) Request { return Request{Name: name, Path: path} }

// watch looks for a second, and again until it has seen the last event: a busy server takes longer.
func watch(name, path, last string) Request {
	return Request{Name: name, Path: path + "&watch=1&timeoutSeconds=1", Await: last}
}

func as(user string, r Request) Request {
	r.User = user
	return r
}

func without(r Request, fields ...string) Request {
	r.Without = append(r.Without, fields...)
	return r
}

// Requests are all that are compared, in the order in which they are sent.
func Requests() []Request {
	return slices.Concat(namespaces, pods, podDeletions, jobs, others, customs, lists, quotas, policies, collected, refusals)
}

var namespaces = []Request{
	without(post("namespace", "/api/v1/namespaces", `{"metadata":{"name":"${namespace}"}}`), "metadata.annotations"),
	without(post("other namespace", "/api/v1/namespaces", `{"metadata":{"name":"${other}","labels":{"a":"b"}}}`), "metadata.annotations"),
	post("namespace again", "/api/v1/namespaces", `{"metadata":{"name":"${namespace}"}}`),
	post("pod without namespace", "/api/v1/namespaces/missing-${namespace}/pods", `{"metadata":{"name":"p"},"spec":{`+podSpec+`}}`),
	{Name: "service account", Path: "serviceaccounts/default", Await: `"kind":"ServiceAccount"`, Without: []string{"metadata", "kind", "apiVersion", "status", "code", "reason", "message", "details"}},
}

var pods = []Request{
	post("pod", "pods", `{"metadata":{"name":"p","labels":{"a":"1"}},"spec":{`+podSpec+`}}`),
	get("get pod", "pods/p"),
	post("pod again", "pods", `{"metadata":{"name":"p"},"spec":{`+podSpec+`}}`),
	post("generated", "pods?dryRun=All", `{"metadata":{"generateName":"generated-"},"spec":{`+podSpec+`}}`),
	without(post("dry run", "pods?dryRun=All", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"dry"},"spec":{`+podSpec+`}}`), "metadata.uid"),
	get("nothing of the dry run", "pods/dry"),
	post("no containers", "pods", `{"metadata":{"name":"q"},"spec":{"containers":[]}}`),
	post("bad name", "pods", `{"metadata":{"name":"Q_"},"spec":{`+podSpec+`}}`),
	post("no image", "pods", `{"metadata":{"name":"q"},"spec":{"schedulerName":"nobody","containers":[{"name":"a"},{"name":"a","image":"a"}]}}`),
	post("no volume", "pods", `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"a","image":"a","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}}`),
	post("more than the limit", "pods", `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"a","image":"a","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}`),
	post("no priority class", "pods", `{"metadata":{"name":"q"},"spec":{"priorityClassName":"missing","containers":[{"name":"a","image":"a"}]}}`),
	post("version", "pods", `{"metadata":{"name":"q","resourceVersion":"1"},"spec":{`+podSpec+`}}`),
	post("other namespace in the body", "pods", `{"metadata":{"name":"q","namespace":"${other}"},"spec":{`+podSpec+`}}`),
	post("bound pod with a gate", "pods", `{"metadata":{"name":"q"},"spec":{"nodeName":"n","schedulingGates":[{"name":"a.b/c"}],`+podSpec+`}}`),
	patch("label", merge, "pods/p", `{"metadata":{"labels":{"b":"2"}}}`),
	patch("the same label", merge, "pods/p", `{"metadata":{"labels":{"b":"2"}}}`),
	patch("labels by operations", jsonPatch, "pods/p", `[{"op":"test","path":"/metadata/labels/b","value":"2"},{"op":"remove","path":"/metadata/labels/b"}]`),
	patch("failed test", jsonPatch, "pods/p", `[{"op":"test","path":"/metadata/labels/a","value":"2"}]`),
	patch("path that is missing", jsonPatch, "pods/p", `[{"op":"remove","path":"/metadata/labels/missing"}]`),
	patch("annotation", strategic, "pods/p", `{"metadata":{"annotations":{"x":"y"}}}`),
	patch("old version", merge, "pods/p", `{"metadata":{"resourceVersion":"${pod.version}","labels":{"c":"3"}}}`),
	patch("other UID", merge, "pods/p", `{"metadata":{"uid":"${namespace.uid}","labels":{"c":"3"}}}`),
	patch("other name", merge, "pods/p", `{"metadata":{"name":"other"}}`),
	patch("dry patch", merge, "pods/p?dryRun=All", `{"metadata":{"labels":{"c":"3"}}}`),
	patch("missing pod", merge, "pods/missing", `{"metadata":{"labels":{"c":"3"}}}`),
	patch("image", strategic, "pods/p", `{"spec":{"containers":[{"name":"a","image":"a:2"}]}}`),
	without(patch("forbidden change", strategic, "pods/p", `{"spec":{"containers":[{"name":"a","command":["x"]}]}}`), "message", "details"),
	patch("status", strategic, "pods/p/status", `{"spec":{"nodeName":"x"},"status":{"conditions":[{"type":"Mine","status":"True"}]},"metadata":{"labels":{"d":"4"}}}`),
	patch("status by another path", merge, "pods/p", `{"status":{"phase":"Failed"}}`),
	post("gated", "pods", `{"metadata":{"name":"gated"},"spec":{"schedulingGates":[{"name":"a.b/c"}],`+podSpec+`}}`),
	post("bind gated", "pods/gated/binding", `{"metadata":{"name":"gated"},"target":{"kind":"Node","name":"n"}}`),
	patch("another gate", strategic, "pods/gated", `{"spec":{"schedulingGates":[{"name":"a.b/d"}]}}`),
	patch("pin and open", strategic, "pods/gated", `{"spec":{"schedulingGates":[{"$patch":"delete","name":"a.b/c"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}}}`),
	post("bind another", "pods/gated/binding", `{"metadata":{"name":"gated","uid":"${pod.uid}"},"target":{"kind":"Node","name":"contract-node"}}`),
	post("bind", "pods/gated/binding", `{"metadata":{"name":"gated","annotations":{"bound":"yes"},"labels":{"l":"m"}},"target":{"kind":"Node","name":"contract-node"}}`),
	get("bound", "pods/gated"),
	post("bind again", "pods/gated/binding", `{"metadata":{"name":"gated"},"target":{"kind":"Node","name":"n"}}`),
	post("bind a missing pod", "pods/missing/binding", `{"metadata":{"name":"missing"},"target":{"kind":"Node","name":"n"}}`),
}

var podDeletions = []Request{
	remove1("delete another", "pods/gated", `{"preconditions":{"uid":"${pod.uid}"}}`),
	remove1("delete an old version", "pods/gated", `{"preconditions":{"resourceVersion":"${pod.version}"}}`),
	remove1("dry deletion", "pods/gated", `{"dryRun":["All"]}`),
	get("after the dry deletion", "pods/gated"),
	remove1("delete with grace", "pods/gated", `{}`),
	remove1("delete again", "pods/gated", `{}`),
	remove1("delete with more grace", "pods/gated", `{"gracePeriodSeconds":60}`),
	remove1("delete with less grace", "pods/gated", `{"gracePeriodSeconds":10}`),
	post("bind a pod that goes", "pods/gated/binding", `{"metadata":{"name":"gated"},"target":{"kind":"Node","name":"n"}}`),
	post("a pod that goes, again", "pods", `{"metadata":{"name":"gated"},"spec":{`+podSpec+`}}`),
	patch("finalizer of a pod that goes", merge, "pods/gated", `{"metadata":{"finalizers":["a.b/late"]}}`),
	remove1("delete at once", "pods/gated", `{"gracePeriodSeconds":0}`),
	get("gone", "pods/gated"),
	remove1("delete a missing pod", "pods/gated", `{}`),
	post("with a finalizer", "pods", `{"metadata":{"name":"held","finalizers":["a.b/held"]},"spec":{`+podSpec+`}}`),
	remove1("delete a held pod", "pods/held", `{}`),
	// The collector of pods may have marked it as failed meanwhile.
	without(get("held pod", "pods/held"), "status", "metadata.resourceVersion"),
	without(patch("let go", merge, "pods/held", `{"metadata":{"finalizers":null}}`), "status"),
	get("let go, and gone", "pods/held"),
	post("evict another", "pods/p/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},"deleteOptions":{"preconditions":{"uid":"${namespace.uid}"}}}`),
	post("to be evicted", "pods", `{"metadata":{"name":"evicted"},"spec":{"nodeName":"another-node",`+podSpec+`}}`),
	post("dry eviction", "pods/evicted/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"evicted"},"deleteOptions":{"dryRun":["All"]}}`),
	get("after the dry eviction", "pods/evicted"),
	post("evict", "pods/evicted/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"evicted"}}`),
	get("evicted", "pods/evicted"),
	get("by node, before a controller deletes the pods of a node that does not exist", "pods?fieldSelector=spec.nodeName%3Danother-node"),
	post("evict a missing pod", "pods/missing/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"missing"}}`),
	post("evict by another name", "pods/evicted/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"other"}}`),
	remove1("bad propagation", "pods/p", `{"propagationPolicy":"Sideways"}`),
	remove1("both ways", "pods/p", `{"propagationPolicy":"Orphan","orphanDependents":true}`),
}

var jobs = []Request{
	post("job", "/apis/batch/v1/namespaces/${namespace}/jobs", `{"metadata":{"name":"j"},"spec":{`+jobSpec+`}}`),
	post("indexed", "/apis/batch/v1/namespaces/${namespace}/jobs", `{"metadata":{"name":"indexed"},"spec":{"completionMode":"Indexed","completions":3,"parallelism":3,"backoffLimitPerIndex":1,"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}]},`+jobSpec+`}}`),
	post("indexed without completions", "/apis/batch/v1/namespaces/${namespace}/jobs", `{"metadata":{"name":"bad"},"spec":{"completionMode":"Indexed",`+jobSpec+`}}`),
	post("always restarted", "/apis/batch/v1/namespaces/${namespace}/jobs", `{"metadata":{"name":"bad"},"spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"name":"a","image":"a"}]}}}}`),
	patch("parallelism", merge, "/apis/batch/v1/namespaces/${namespace}/jobs/j", `{"spec":{"parallelism":5}}`),
	without(patch("template", strategic, "/apis/batch/v1/namespaces/${namespace}/jobs/j", `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"b"}]}}}}`), "message", "details"),
	without(patch("completions", merge, "/apis/batch/v1/namespaces/${namespace}/jobs/j", `{"spec":{"completions":7}}`), "message", "details"),
	patch("status of a job", merge, "/apis/batch/v1/namespaces/${namespace}/jobs/j/status", `{"status":{"active":1,"startTime":"2026-01-01T00:00:00Z"},"spec":{"parallelism":9}}`),
	remove1("dry deletion of a job", "/apis/batch/v1/namespaces/${namespace}/jobs/j", `{"propagationPolicy":"Foreground","dryRun":["All"]}`),
	remove1("orphaning by default, dry", "/apis/batch/v1/namespaces/${namespace}/jobs/j", `{"dryRun":["All"]}`),
	remove1("delete a job", "/apis/batch/v1/namespaces/${namespace}/jobs/j", `{"propagationPolicy":"Background"}`),
	get("job gone", "/apis/batch/v1/namespaces/${namespace}/jobs/j"),
}
