// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"fmt"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Unsupported says which field of a spec asks for what is not there yet; "" if
// none does. A field that would be ignored is refused instead.
func Unsupported(mc *v1alpha2.MiniCluster) string {
	s := &mc.Spec
	bursting := s.Flux.Bursting
	switch {
	case len(s.Services) > 0:
		return "spec.services is not supported yet"
	case bursting.LeadBroker != nil || bursting.Hostlist != "" || len(bursting.Clusters) > 0:
		return "spec.flux.bursting is not supported yet"
	case s.FluxContainer().Batch:
		return "spec.containers[].batch is not supported yet; a launcher can submit jobs of its own"
	}
	for _, container := range s.Containers {
		if container.Commands.ServicePre != "" {
			return "spec.containers[].commands.servicePre is not supported yet"
		}
		wrapped := container.Command != "" || container.Commands != (v1alpha2.Commands{})
		if !container.RunFlux && !container.NoWrapEntrypoint && wrapped {
			return fmt.Sprintf("container %q: a command beside Flux is not supported yet; noWrapEntrypoint: true runs the image's own", container.Name)
		}
	}
	return ""
}
