// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	schemapkg "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/controllers/beside"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// errToDo is the error of a check that has found something to do. The report says what.
var errToDo = errors.New("not all MiniClusters work as they are")

// row is a line of the report.
type row struct {
	name  string
	state string
	verdict
}

// migrateFiles reports on the MiniClusters in files.
func migrateFiles(files []string, namespace string, s *access.Session) error {
	r, err := newRenderer(namespace)
	if err != nil {
		return err
	}
	var rows []row
	var errs []error
	for _, file := range files {
		text, err := access.ReadFile(file, s.In)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// kubectl apply accepts a field that is there twice, and takes the last value.
		errs = append(errs, eachMiniCluster(file, text, yaml.YAMLToJSON, func(object map[string]any) error {
			verdict := r.judge(object)
			rows = append(rows, row{nameOf(object, namespace), "in a file", verdict})
			return nil
		})...)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("there is no MiniCluster")
	}
	return report(rows, nil, s)
}

func nameOf(object map[string]any, namespace string) string {
	u := unstructured.Unstructured{Object: object}
	return cmp.Or(u.GetNamespace(), namespace) + "/" + u.GetName()
}

// migrateCluster reports on the MiniClusters in a cluster, and on the Flux Operator itself.
func migrateCluster(ctx context.Context, s *access.Session) error {
	cluster, err := s.Client()
	if err != nil {
		return err
	}
	rows, err := migrateRows(ctx, cluster, s.Flags.Context.Namespace)
	if err != nil {
		return err
	}
	remarks, err := operatorRemarks(ctx, cluster)
	if err != nil {
		return err
	}
	return report(rows, remarks, s)
}

func migrateRows(ctx context.Context, cluster client.Reader, namespace string) ([]row, error) {
	r, err := newRenderer("")
	if err != nil {
		return nil, err
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind + "List"))
	if err := cluster.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("reading MiniClusters: %w", err)
	}
	old, err := operatorObjects(ctx, cluster, namespace)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i := range list.Items {
		mc := &list.Items[i]
		of := old[mc.GetUID()]
		verdict := r.judge(mc.Object)
		if len(of.names) > 0 && verdict.kind != refusedHere {
			verdict.kind = worksWithChange
			verdict.details = append(verdict.details, "delete it once it has ended, since the Flux Operator made its "+strings.Join(of.names, ", ")+"; then create it again if it has to run")
		}
		rows = append(rows, row{nameOf(mc.Object, ""), cmp.Or(of.state, "new"), verdict})
	}
	return rows, nil
}

// operated is what the Flux Operator made for a MiniCluster.
type operated struct {
	state string   // of the Job
	names []string // of the objects
}

// operatorObjects returns what the Flux Operator made, by the UIDs of the MiniClusters. Objects of
// ours have the annotation of an attempt.
func operatorObjects(ctx context.Context, cluster client.Reader, namespace string) (map[types.UID]operated, error) {
	old := map[types.UID]operated{}
	for _, kind := range []schemapkg.GroupVersionKind{
		batchv1.SchemeGroupVersion.WithKind("Job"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("Pod"),
	} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		if err := cluster.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("reading objects of kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			owner := metav1.GetControllerOf(object)
			if owner == nil || owner.Kind != v1alpha2.MiniClusterKind || jobset.Attempt(object) > 0 {
				continue
			}
			of := old[owner.UID]
			of.names = append(of.names, kind.Kind+" "+object.GetName())
			if kind.Kind == "Job" {
				of.state = jobState(object)
			}
			old[owner.UID] = of
		}
	}
	return old, nil
}

// jobState says whether the command of a Job of the Flux Operator may still run.
func jobState(job *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["status"] == "True" && (condition["type"] == string(batchv1.JobComplete) || condition["type"] == string(batchv1.JobFailed)) {
			return "ended"
		}
	}
	return "runs"
}

// operatorRoles are roles of the Flux Operator that stay if only its namespace is deleted.
var operatorRoles = []string{"operator-manager-role", "operator-metrics-reader", "operator-proxy-role"}

// operatorRemarks says what is there of the Flux Operator itself.
func operatorRemarks(ctx context.Context, cluster client.Client) (remarks []string, err error) {
	sign, err := beside.FluxOperator.Running(ctx, cluster, time.Now())
	if err != nil {
		return nil, err
	}
	if sign != "" {
		return []string{"The Flux Operator runs (" + sign + "). Remove it before flux-elastic starts."}, nil
	}
	for _, name := range operatorRoles {
		switch err := cluster.Get(ctx, client.ObjectKey{Name: name}, &rbacv1.ClusterRole{}); {
		case err == nil:
			remarks = append(remarks, "ClusterRole "+name+" of the Flux Operator is left over.")
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("looking for ClusterRole %q: %w", name, err)
		}
	}
	return remarks, nil
}

// report prints rows and remarks. The error is errToDo if there is something to do.
func report(rows []row, remarks []string, s *access.Session) error {
	todo := len(remarks) > 0
	table := s.NewTable()
	if len(rows) > 0 {
		table.Row("MINICLUSTER", "STATE", "VERDICT", "WHAT TO DO")
	}
	for _, row := range rows {
		todo = todo || row.kind != worksAsIs
		table.Row(row.name, row.state, row.kind, strings.Join(row.details, "; "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, remark := range remarks {
		if _, err := fmt.Fprintln(s.Out, remark); err != nil {
			return err
		}
	}
	if todo {
		return errToDo
	}
	_, err := fmt.Fprintln(s.Out, "There is nothing to do.")
	return err
}
