// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/bench"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// readyTimeout is how long a scheduler may take until it runs its first gang.
const readyTimeout = 2 * time.Minute

// warmUp is a gang that runs before the experiment: once it has run, all programs work.
var warmUp = clog.Gang{Name: "warm-up", Size: 2, Min: 2, Run: time.Second}

// start starts the cluster and the scheduler, and returns when a first gang has run and is gone.
func (e *experiment) start(ctx context.Context) (*localcluster.Cluster, client.Client, error) {
	s := e.Scheduler
	e.config.Control = localcluster.ControlConfig(s.Control)
	if s.Kueue != "" {
		configuration, err := e.KueueConfiguration()
		if err != nil {
			return nil, nil, err
		}
		e.config.Kueue = &localcluster.KueueConfig{Configuration: configuration}
	}
	parts := e.config.Parts()
	if s.Part != "" {
		parts = append(parts, localcluster.Part(s.Part))
	}
	binaries, err := ensureBinaries(ctx, parts...)
	if err != nil {
		return nil, nil, err
	}
	for name := range binaries {
		if path := filepath.Join(e.peers, name); e.peers != "" && isProgram(path) {
			binaries[name] = path
		}
	}
	if s.Replaces {
		binaries["kube-scheduler"] = binaries[s.Program]
	}
	cluster, err := localcluster.Up(ctx, e.config, binaries, say)
	if err != nil {
		return nil, nil, err
	}
	if err := startSimulator(cluster); err != nil {
		return nil, nil, err
	}
	c, err := e.startScheduler(ctx, cluster, binaries)
	if err != nil {
		return nil, nil, err
	}
	return cluster, c, e.warmUp(ctx, c)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// startScheduler starts the manager, or the program of another scheduler, and makes the objects that
// the scheduler needs.
func (e *experiment) startScheduler(ctx context.Context, cluster *localcluster.Cluster, binaries localcluster.Binaries) (client.Client, error) {
	if !e.Scheduler.Ours() {
		return e.startPeer(ctx, cluster, binaries)
	}
	root, err := localcluster.Root()
	if err != nil {
		return nil, err
	}
	c, err := startDemo(ctx, cluster, root, e.manager, "--binder="+e.Scheduler.Binder)
	if err != nil {
		return nil, err
	}
	if e.kueue {
		return c, makeKueueQueue(ctx, c, e.cpu, e.config.Nodes.Count)
	}
	return c, e.makeQueues(ctx, c)
}

// startPeer starts the program of another scheduler.
func (e *experiment) startPeer(ctx context.Context, cluster *localcluster.Cluster, binaries localcluster.Binaries) (client.Client, error) {
	s := e.Scheduler
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, err
	}
	if s.Definitions != "" {
		if err := installDefinitions(ctx, c, binaries[s.Program], s.Definitions); err != nil {
			return nil, err
		}
	}
	if s.Replaces { // it began without its API, and may look for that again late
		if err := errors.Join(cluster.Stop(ctx, "kube-scheduler"), cluster.Start(ctx, "kube-scheduler")); err != nil {
			return nil, err
		}
	} else if s.Program != "" {
		say("starting " + s.Program)
		if err := e.startProgram(cluster, binaries[s.Program]); err != nil {
			return nil, err
		}
	}
	return c, e.makeQueues(ctx, c)
}

// installDefinitions applies the files of an API in the module of a program.
func installDefinitions(ctx context.Context, c client.Client, program, pattern string) error {
	sources, err := localcluster.Sources(ctx, program)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(sources, pattern))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("no definitions %s in %s", pattern, sources), err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := apply(ctx, c, data); err != nil {
			return fmt.Errorf("installing %s: %w", path, err)
		}
	}
	return nil
}

// startProgram starts the program that runs beside the cluster.
func (e *experiment) startProgram(cluster *localcluster.Cluster, path string) error {
	s := e.Scheduler
	config := filepath.Join(cluster.Dir, "config", s.Program)
	if err := os.WriteFile(config, []byte(s.Config), 0o644); err != nil {
		return err
	}
	var args []string
	for _, arg := range s.Args {
		arg, err := bench.Expand(arg, map[string]string{"KUBECONFIG": cluster.Kubeconfig(), "CONFIG": config})
		if err != nil {
			return err
		}
		args = append(args, arg)
	}
	return cluster.Run(s.Program, path, args...)
}

// makeQueues makes the queues, and whatever else the scheduler needs.
func (e *experiment) makeQueues(ctx context.Context, c client.Client) error {
	objects, err := e.Prepare(e.cpu)
	if err != nil {
		return err
	}
	for _, object := range objects {
		status := object.Object["status"] // the controllers of a scheduler may not run
		err := insist(ctx, func() error { return c.Create(ctx, object) })
		if err == nil && status != nil {
			object.Object["status"] = status
			err = c.Status().Update(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("making %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// insist repeats what fails, as new parts of the API and webhooks are not served at once.
func insist(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// objects returns the objects of a gang.
func (e *experiment) objects(gang clog.Gang) ([]client.Object, error) {
	if !e.Scheduler.Ours() {
		return e.Objects(gang, e.cpu)
	}
	mc := e.MiniCluster(gang, e.cpu)
	if e.kueue {
		mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: kueueQueue}
	}
	return []client.Object{mc}, nil
}

// warmUp runs the gang warmUp, and returns when all of its objects are gone. The garbage collector knows
// a new API only after half a minute: until then, pods of attempts that were given up would stay.
func (e *experiment) warmUp(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	gang := warmUp
	gang.Queue = e.Scenario.Queues()[0]
	if err := insist(ctx, func() error { return client.IgnoreAlreadyExists(e.create(ctx, c, gang)) }); err != nil {
		return fmt.Errorf("making the first gang: %w", err)
	}
	err := poll(ctx, func() (bool, error) {
		var pods corev1.PodList
		ended := 0
		err := c.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault))
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodSucceeded {
				ended++
			}
		}
		return ended > 0 && ended == len(pods.Items), err // a MiniCluster keeps only its lead's pod
	})
	if err != nil {
		return fmt.Errorf("running the first gang: %w", err)
	}
	return e.remove(ctx, c, gang)
}

// remove deletes the objects of a gang, and waits until they and all pods are gone.
func (e *experiment) remove(ctx context.Context, c client.Client, gang clog.Gang) error {
	objects, err := e.objects(gang)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetObjectKind().GroupVersionKind().Kind == "PodGroup" {
			continue // goes with its Job
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, object, client.PropagationPolicy("Background"))); err != nil {
			return err
		}
	}
	err = poll(ctx, func() (bool, error) {
		for _, object := range objects {
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		var pods corev1.PodList
		err := c.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault))
		return len(pods.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("deleting the first gang: %w", err)
	}
	return nil
}
