// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// inventory is all that is in the cluster, each thing with its finalizers.
type inventory map[string]bool

// takeInventory lists whatever can be listed. Events go by themselves, and leases are
// renewed by others.
func (s *site) takeInventory() (inventory, error) {
	config, err := env.cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{} // of kinds that are deprecated
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := api.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	all, stays := inventory{}, scripts(s.t).Name // these are for all of the namespace
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "events" || resource.Name == "leases" {
				continue
			}
			items, err := objects.Resource(group.WithResource(resource.Name)).List(s.ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", resource.Name, err)
			}
			for j := range items.Items {
				object := &items.Items[j]
				if object.GetName() == stays {
					continue
				}
				all[fmt.Sprintf("%s %s/%s %v", resource.Name, object.Namespace, object.Name, object.Finalizers)] = true
			}
		}
	}
	return all, nil
}

// nothingNew checks that there is nothing that was not there before.
func (s *site) nothingNew(before inventory) error {
	after, err := s.takeInventory()
	if err != nil {
		return err
	}
	var more []string
	for object := range after {
		if !before[object] {
			more = append(more, object)
		}
	}
	if len(more) == 0 {
		return nil
	}
	slices.Sort(more)
	return fmt.Errorf("%d objects are left over:\n%s", len(more), strings.Join(more[:min(len(more), 50)], "\n"))
}
