// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import "net/http"

var others = []Request{
	post("secret", "secrets", `{"metadata":{"name":"s"},"stringData":{"a":"b"},"immutable":true}`),
	patch("immutable secret", merge, "secrets/s", `{"data":{"a":"Yw=="}}`),
	patch("owner of a secret", strategic, "secrets/s", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"${pod.uid}"}]}}`),
	patch("owner without a name", strategic, "secrets/s", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","uid":"1"}]}}`),
	patch("two controllers", merge, "secrets/s", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1","controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"2","controller":true}]}}`),
	post("configmap", "configmaps", `{"metadata":{"name":"c"},"data":{"a":"b"}}`),
	put("unconditional update", "configmaps/c", `{"metadata":{"name":"c"},"data":{"a":"c"}}`),
	put("old update", "configmaps/c", `{"metadata":{"name":"c","resourceVersion":"${configmap.version}"},"data":{"a":"d"}}`),
	put("update of another", "configmaps/c", `{"metadata":{"name":"c","uid":"${secret.uid}"},"data":{"a":"d"}}`),
	put("update by another name", "configmaps/c", `{"metadata":{"name":"d"}}`),
	put("update of a missing object", "configmaps/missing", `{"metadata":{"name":"missing"}}`),
	put("update without change", "configmaps/c", `{"metadata":{"name":"c"},"data":{"a":"c"}}`),
	remove1("delete a configmap", "configmaps/c", ""),
	post("headless", "services", `{"metadata":{"name":"headless"},"spec":{"clusterIP":"None","selector":{"a":"b"},"publishNotReadyAddresses":true}}`),
	post("service", "services", `{"metadata":{"name":"service"},"spec":{"ports":[{"port":80}]}}`),
	post("dry service", "services?dryRun=All", `{"metadata":{"name":"dry"},"spec":{"clusterIP":"None"}}`),
	post("bad service", "services", `{"metadata":{"name":"1service"},"spec":{"ports":[{"port":80}]}}`),
	patch("selector", strategic, "services/headless", `{"spec":{"selector":{"c":"d"}}}`),
	remove1("delete a service", "services/service", `{}`),
	post("lease", "/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"a","leaseDurationSeconds":10,"renewTime":"2026-01-01T00:00:00.000000Z"}}`),
	put("lease without a version", "/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/l", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"b"}}`),
	put("lease of an old version", "/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/l", `{"metadata":{"name":"l","resourceVersion":"1"},"spec":{"holderIdentity":"b"}}`),
	put("renewed", "/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/l", `{"metadata":{"name":"l","resourceVersion":"${lease.version}"},"spec":{"holderIdentity":"b"}}`),
	put("lease by update", "/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/m", `{"metadata":{"name":"m"},"spec":{"holderIdentity":"b"}}`),
	post("slice", "/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices", `{"metadata":{"name":"e","labels":{"kubernetes.io/service-name":"none","endpointslice.kubernetes.io/managed-by":"nobody"}},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"hostname":"a","conditions":{"ready":true}}]}`),
	patch("slice changed", merge, "/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices/e", `{"endpoints":[{"addresses":["10.0.0.2"],"conditions":{"ready":true}}]}`),
	post("event", "/apis/events.k8s.io/v1/namespaces/${namespace}/events", `{"metadata":{"name":"ev"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"a.b/c","reportingInstance":"i","action":"Do","reason":"Why","type":"Normal","note":"n","regarding":{"kind":"Pod","namespace":"${namespace}","name":"p"}}`),
	without(post("claim", "persistentvolumeclaims", `{"metadata":{"name":"claim"},"spec":{"storageClassName":"missing","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`), "metadata.finalizers"),
}

const (
	miniClusters = "/apis/flux-framework.org/v1alpha2/namespaces/${namespace}/miniclusters"
	jobSets      = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/${namespace}/jobsets"
)

// customs are of the kinds that definitions bring: defaults, pruning, rules, the status.
var customs = []Request{
	post("minicluster", miniClusters, `{"apiVersion":"flux-framework.org/v1alpha2","kind":"MiniCluster","metadata":{"name":"m"},"unknown":1,"spec":{"managedBy":"example.com/nobody","size":2,"unknown":{"a":1},"containers":[{"image":"a","command":"b"}]},"status":{"size":7}}`),
	post("minicluster of no size", miniClusters, `{"apiVersion":"flux-framework.org/v1alpha2","kind":"MiniCluster","metadata":{"name":"n"},"spec":{"managedBy":"example.com/nobody","size":-1,"containers":[{"image":"a"}]}}`),
	post("minicluster of a wrong type", miniClusters, `{"apiVersion":"flux-framework.org/v1alpha2","kind":"MiniCluster","metadata":{"name":"n"},"spec":{"managedBy":"example.com/nobody","size":"two","containers":[{"image":"a"}]}}`),
	post("minicluster with a minimum above its size", miniClusters, `{"apiVersion":"flux-framework.org/v1alpha2","kind":"MiniCluster","metadata":{"name":"n"},"spec":{"managedBy":"example.com/nobody","size":2,"minSize":4,"containers":[{"image":"a"}]}}`),
	post("minicluster without containers", miniClusters, `{"apiVersion":"flux-framework.org/v1alpha2","kind":"MiniCluster","metadata":{"name":"n"},"spec":{"managedBy":"example.com/nobody","size":2}}`),
	post("minicluster without a spec", miniClusters, `{"apiVersion":"flux-framework.org/v1alpha2","kind":"MiniCluster","metadata":{"name":"n"}}`),
	patch("status of a minicluster", merge, miniClusters+"/m/status", `{"metadata":{"labels":{"not":"kept"}},"spec":{"size":9},"status":{"size":1}}`),
	patch("the same status", merge, miniClusters+"/m/status", `{"status":{"size":1}}`),
	patch("status of a wrong type", merge, miniClusters+"/m/status", `{"status":{"size":"many"}}`),
	patch("status by the wrong path", merge, miniClusters+"/m", `{"status":{"size":3},"metadata":{"labels":{"a":"b"}}}`),
	patch("spec of a minicluster", merge, miniClusters+"/m", `{"spec":{"suspend":true}}`),
	patch("size of a minicluster", merge, miniClusters+"/m", `{"spec":{"size":5}}`),
	patch("minicluster with an old version", merge, miniClusters+"/m/status", `{"metadata":{"resourceVersion":"${minicluster.version}"},"status":{"size":2}}`),
	patch("strategic patch of a minicluster", strategic, miniClusters+"/m", `{"spec":{"suspend":true}}`),
	put("minicluster without a version", miniClusters+"/m", `{"apiVersion":"flux-framework.org/v1alpha2","kind":"MiniCluster","metadata":{"name":"m"},"spec":{"size":1}}`),
	patch("finalizer of a minicluster", jsonPatch, miniClusters+"/m", `[{"op":"add","path":"/metadata/finalizers","value":["a.b/c"]}]`),
	remove1("delete a held minicluster", miniClusters+"/m", `{}`),
	patch("let a minicluster go", merge, miniClusters+"/m", `{"metadata":{"finalizers":[]}}`),
	get("minicluster gone", miniClusters+"/m"),
	post("jobset", jobSets, `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":"set"},"spec":{"suspend":true,"managedBy":"example.com/nobody","replicatedJobs":[{"name":"0","replicas":1,"template":{"spec":{`+jobSpec+`}}}]}}`),
	patch("replicas of a jobset", jsonPatch, jobSets+"/set", `[{"op":"replace","path":"/spec/replicatedJobs/0/replicas","value":3}]`),
	remove1("delete a jobset", jobSets+"/set", `{"propagationPolicy":"Background"}`),
}

// lists are lists, selectors and watches.
var lists = []Request{
	post("first", "configmaps", `{"metadata":{"name":"l1","labels":{"l":"1"}}}`),
	post("second", "configmaps", `{"metadata":{"name":"l2","labels":{"l":"2"}}}`),
	post("third", "configmaps", `{"metadata":{"name":"l3","labels":{"l":"1"}}}`),
	get("by label", "configmaps?labelSelector=l%3D1"),
	get("by labels", "configmaps?labelSelector=l+in+(1,2),!x"),
	get("by name", "configmaps?fieldSelector=metadata.name%3Dl2"),
	get("by an unknown field", "configmaps?fieldSelector=data.a%3Db"),
	get("by a bad label", "configmaps?labelSelector=%3D%3D"),
	without(get("with a limit", "configmaps?labelSelector=l&limit=2"), "metadata.remainingItemCount"),
	{Name: "metadata alone", Path: "configmaps?labelSelector=l%3D1", Accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
	{Name: "metadata of one", Path: "configmaps/l1", Accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
	patch("joins", merge, "configmaps/l2", `{"metadata":{"labels":{"l":"1"}}}`),
	patch("changes", merge, "configmaps/l1", `{"data":{"a":"b"}}`),
	patch("leaves", merge, "configmaps/l1", `{"metadata":{"labels":{"l":null}}}`),
	remove1("goes", "configmaps/l3", ""),
	watch("watch since the third", "configmaps?labelSelector=l%3D1&resourceVersion=${third.version}", `"name":"l3"`),
	watch("watch all from the beginning", "configmaps?labelSelector=l%3D1&resourceVersion=0", `"name":"l2"`),
	watch("stream a list", "configmaps?labelSelector=l%3D1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", `"k8s.io/initial-events-end"`),
	{Name: "deletion of some, dry", Method: http.MethodDelete, Path: "configmaps?labelSelector=l&dryRun=All"},
	{Name: "deletion of some", Method: http.MethodDelete, Path: "configmaps?labelSelector=l"},
	get("what is left of them", "configmaps?labelSelector=l"),
}

// quotas are in the second namespace.
var quotas = []Request{
	post("quota", "/api/v1/namespaces/${other}/resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"pods":"1","requests.cpu":"1500m","count/jobs.batch":"1","configmaps":"5"}}}`),
	{Name: "quota is counted", Path: "/api/v1/namespaces/${other}/resourcequotas/q", Await: `"used":{`, Without: []string{"status.used.configmaps"}},
	post("within the quota", "/api/v1/namespaces/${other}/pods", `{"metadata":{"name":"p"},"spec":{`+podSpec+`}}`),
	without(get("used", "/api/v1/namespaces/${other}/resourcequotas/q"), "status.used.configmaps"),
	post("beyond the quota", "/api/v1/namespaces/${other}/pods", `{"metadata":{"name":"q"},"spec":{`+podSpec+`}}`),
	post("beyond the quota, dry", "/api/v1/namespaces/${other}/pods?dryRun=All", `{"metadata":{"generateName":"generated-"},"spec":{`+podSpec+`}}`),
	post("without what the quota demands", "/api/v1/namespaces/${other}/pods", `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"a","image":"a"}]}}`),
	post("one job", "/apis/batch/v1/namespaces/${other}/jobs", `{"metadata":{"name":"j"},"spec":{`+jobSpec+`}}`),
	post("two jobs", "/apis/batch/v1/namespaces/${other}/jobs", `{"metadata":{"name":"k"},"spec":{`+jobSpec+`}}`),
}

// refusals are requests that the server does not understand.
var refusals = []Request{
	get("unknown resource", "unknowns"),
	get("unknown group", "/apis/unknown.example.com/v1/namespaces/${namespace}/things"),
	get("missing", "configmaps/missing"),
	post("no JSON", "configmaps", `{`),
	without(post("another kind", "configmaps", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`), "message"),
	without(post("another version", "configmaps", `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}`), "message"),
	post("wrong type", "configmaps", `{"metadata":{"name":"x"},"data":{"a":1}}`),
	post("no name", "configmaps", `{"metadata":{}}`),
	patch("unknown patch", "text/plain", "secrets/s", `{}`),
	patch("no patch", merge, "secrets/s", `{`),
	{Name: "deletion of all kinds of methods", Method: http.MethodPut, Path: "configmaps", Body: `{}`},
	post("bad dry run", "configmaps?dryRun=Some", `{"metadata":{"name":"x"}}`),
}
