// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/test/docs"
)

// TryDocumented sends objects of the pages and examples below root to the API server, as dry runs: those
// of Kueue, or all others. The API server refuses a field that it does not know. Objects with a namespace
// get that of the site.
func (s *Site) TryDocumented(root string, ofKueue bool) {
	s.T.Helper()
	objects, err := docs.Objects(os.DirFS(root))
	if err != nil {
		s.T.Fatal(err)
	}
	tried := 0
	for i := range objects {
		object := &objects[i]
		if strings.HasSuffix(object.GroupVersionKind().Group, "kueue.x-k8s.io") != ofKueue {
			continue
		}
		tried++
		if err := s.try(object); err != nil {
			s.T.Errorf("%s: %s %q: %v", object.Where, object.GetKind(), object.GetName(), err)
		}
	}
	if tried == 0 {
		s.T.Error("no objects were found")
	}
}

func (s *Site) try(object *docs.Object) error {
	namespaced, err := s.Cluster.Client.IsObjectNamespaced(&object.Unstructured)
	if err != nil {
		return err
	}
	if namespaced {
		object.SetNamespace(s.Namespace)
	}
	return s.Cluster.Client.Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(&object.Unstructured),
		client.DryRunAll, client.FieldOwner("documented"), client.ForceOwnership)
}
