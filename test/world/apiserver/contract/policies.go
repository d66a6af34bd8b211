// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import "strings"

const (
	manager       = "system:serviceaccount:flux-elastic-system:flux-elastic"
	jobController = "system:serviceaccount:kube-system:job-controller"
	batchJobs     = "/apis/batch/v1/namespaces/${namespace}/jobs"
)

// placedJob is a Job whose template says to which nodes its pods go.
func placedJob(name string) string {
	template := `"template":{"metadata":{"annotations":{"flux-framework.org/nodes":"n//1"}},`
	return `{"metadata":{"name":"` + name + `"},"spec":{` + strings.Replace(jobSpec, `"template":{`, template, 1) + `}}`
}

// placedPod is a pod as the Job controller makes it of such a template. index and failures are of the Job.
func placedPod(index, failures, nodes string) string {
	return `{"metadata":{"generateName":"generated-","labels":{"flux-framework.org/minicluster":"m","batch.kubernetes.io/job-completion-index":"` + index + `",
	  "jobset.sigs.k8s.io/replicatedjob-name":"1"},"annotations":{"flux-framework.org/nodes":"` + nodes + `","batch.kubernetes.io/job-index-failure-count":"` + failures + `"},
	  "ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"x","uid":"${pod.uid}","controller":true}]},
	  "spec":{"schedulingGates":[{"name":"flux-framework.org/placement"}],` + podSpec + `}}`
}

// policies are of config/admission and config/limits.
var policies = []Request{
	post("job of a MiniCluster", batchJobs, `{"metadata":{"name":"ours","labels":{"flux-framework.org/minicluster":"m"},
	  "ownerReferences":[{"apiVersion":"example.com/v1","kind":"JobSet","name":"x","uid":"${pod.uid}","controller":true}]},"spec":{`+jobSpec+`}}`),
	remove1("deletion of the job that leaves its pods", batchJobs+"/ours?dryRun=All", `{}`),
	remove1("deletion of the job that leaves its pods, as asked", batchJobs+"/ours?dryRun=All", `{"propagationPolicy":"Orphan"}`),
	remove1("deletion of the job that leaves its pods, as asked before", batchJobs+"/ours?dryRun=All", `{"orphanDependents":true}`),
	remove1("deletion of the job with its pods", batchJobs+"/ours", `{"propagationPolicy":"Background"}`),
	post("nodes by an administrator", batchJobs+"?dryRun=All", placedJob("placed")),
	as(jobController, post("pod of the first node", "pods?dryRun=All", placedPod("0", "0", "node-/.end/7,8,*"))),
	as(jobController, post("pod of the second node", "pods?dryRun=All", placedPod("1", "0", "node-/.end/7,8,*"))),
	as(jobController, post("pod of a rank without a node", "pods?dryRun=All", placedPod("2", "0", "node-/.end/7,8,*"))),
	as(jobController, post("pod beyond the list", "pods?dryRun=All", placedPod("3", "0", "node-/.end/7,8,*"))),
	as(jobController, post("second pod of an index", "pods?dryRun=All", placedPod("0", "1", "node-/.end/7,8,*"))),
	as(jobController, post("pod with a list that is none", "pods?dryRun=All", placedPod("0", "0", "node"))),
	as(manager, post("dry run of the manager", "pods?dryRun=All", placedPod("0", "0", "node-//7"))),
	as(manager, post("pod of the manager", "pods", `{"metadata":{"name":"x"},"spec":{`+podSpec+`}}`)),
	as(manager, post("secret of the manager", "secrets", `{"metadata":{"name":"x"}}`)),
	as(manager, post("certificate of the manager", "secrets?dryRun=All", `{"metadata":{"name":"x-curve-1-bcdfg"},"data":{"curve.cert":"eA=="}}`)),
	as(manager, post("job of the manager", batchJobs+"?dryRun=All", placedJob("placed"))),
	as("system:serviceaccount:kube-system:cronjob-controller", post("nodes by another controller", batchJobs+"?dryRun=All", placedJob("placed"))),
	post("job of a JobSet", batchJobs, strings.Replace(placedJob("kept"), `"name":"kept"`, ownedByJobSet, 1)),
	remove1("its end by an administrator", batchJobs+"/kept?dryRun=All", ""),
	as(manager, remove1("its end by the manager", batchJobs+"/kept?dryRun=All", "")),
	as("system:serviceaccount:kube-system:generic-garbage-collector", remove1("its end by the garbage collector", batchJobs+"/kept?dryRun=All", "")),
}

// ownedByJobSet is metadata of an object whose owner the garbage collector cannot find.
const ownedByJobSet = `"name":"kept","ownerReferences":[{"apiVersion":"example.com/v1","kind":"JobSet","name":"kept","uid":"${pod.uid}","controller":true}]`
