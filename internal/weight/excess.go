// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package weight

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

const (
	// Most is how many bytes a MiniCluster may have as JSON and in memory, without its status. The JobSet of the MiniCluster
	// may have as many.
	Most = 240 << 10
	// MostPod is how many bytes the cache may keep of a broker's pod, in the API server's own format. In memory, the pod may
	// have five times as many: each container has more than one KiB.
	MostPod = 8 << 10
)

// instead says what to do with large inputs.
const instead = "Large inputs belong into a ConfigMap or a volume, which the pods mount"

// excessAnnotation is on a MiniCluster of the cache that was cut. The value says how much the MiniCluster weighs.
const excessAnnotation = v1alpha2.Group + "/excess"

// Excess says that a MiniCluster of the cache weighs too much; "" if not.
func Excess(mc *v1alpha2.MiniCluster) string {
	if cut := mc.Annotations[excessAnnotation]; cut != "" {
		return fmt.Sprintf("the MiniCluster has %s, and may have %d KiB. %s", cut, Most>>10, instead)
	}
	return ""
}

// ExcessOfJobSet says that the JobSet of a MiniCluster would weigh too much; "" if not.
func ExcessOfJobSet(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet) string {
	if size := sizeOf(set); size > Most {
		return fmt.Sprintf("the JobSet, which has the template of the pods twice, would have %d KiB, and may have %d KiB. Most of the MiniCluster is %s. %s",
			size>>10, Most>>10, largest(mc), instead)
	}
	return ""
}

// ExcessOfPod says that a broker's pod would weigh too much in the cache; "" if not.
func ExcessOfPod(pod *corev1.Pod) string {
	stripped := protocol.Strip(pod.DeepCopy())
	if size := max(stripped.Size(), memoryOf(stripped)/5); size > MostPod {
		return fmt.Sprintf("a pod would have %d KiB of labels, selectors, tolerations, claims and requests, and may have %d KiB", size>>10, MostPod>>10)
	}
	return ""
}

// sizeOf is how many bytes an object has, about: as it is stored, or in memory if these are more. Of kinds that have
// many small parts, a third of the memory counts.
func sizeOf(object any) int {
	memory := memoryOf(object)
	switch object.(type) {
	case *v1alpha2.MiniCluster, *jobsetapi.JobSet, *batchv1.Job: // the largest, and a namespace has hundreds
	default:
		memory /= 3
	}
	return max(storedSize(object), memory)
}

// storedSize is how many bytes an object has in the API server's own format if there is one for the kind, else as JSON.
func storedSize(object any) int {
	if sized, ok := object.(interface{ Size() int }); ok {
		return sized.Size()
	}
	text, err := json.Marshal(object)
	if err != nil {
		return math.MaxInt // no object that came from the API server
	}
	return len(text)
}

// measured is a MiniCluster without what its user does not write.
func measured(mc *v1alpha2.MiniCluster) *v1alpha2.MiniCluster {
	return &v1alpha2.MiniCluster{ObjectMeta: mc.ObjectMeta, Spec: mc.Spec}
}

// largest is the path to the smallest part of a MiniCluster that has more than half of the bytes of the part around it; the
// MiniCluster itself if its metadata and its spec weigh the same.
func largest(mc *v1alpha2.MiniCluster) string {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(measured(mc))
	if err != nil {
		return "spec"
	}
	return cmp.Or(strings.TrimPrefix(largestOf("", object), "."), "metadata and spec")
}

func largestOf(path string, value any) string {
	parts := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for name, part := range value {
			parts[path+"."+name] = part
		}
	case []any:
		for i, part := range value {
			parts[fmt.Sprintf("%s[%d]", path, i)] = part
		}
	}
	whole := storedSize(value)
	for name, part := range parts {
		if 2*storedSize(part) > whole {
			return largestOf(name, part)
		}
	}
	return path
}
