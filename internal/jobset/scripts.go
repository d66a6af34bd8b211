// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// The scripts that are the same for every MiniCluster stand once in a namespace, and once for each version of the scripts.
// The name of their ConfigMap is a digest of them. So an attempt keeps the scripts with which it was made, whatever manager
// runs, and nobody can put other scripts in their place. Nobody owns the ConfigMap: its owner would take it from others. It
// stays in its namespace, since the manager may not delete ConfigMaps.

// scriptsPrefix is how the name of a ConfigMap of scripts begins.
const scriptsPrefix = "flux-elastic-scripts-"

// scriptsName is the name of the ConfigMap with the scripts of this version.
var scriptsName = sync.OnceValue(func() string { return nameOf(broker.Scripts()) })

// nameOf is the name of a ConfigMap with some scripts: 128 bits of a digest of their names and texts, in hexadecimal.
func nameOf(scripts map[string]string) string {
	digest := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		fmt.Fprintf(digest, "%q %q\n", name, scripts[name])
	}
	return scriptsPrefix + hex.EncodeToString(digest.Sum(nil)[:16])
}

// Scripts returns the ConfigMap with the scripts that the pods of a JobSet mount; nil for a JobSet of an older version, whose
// own files have the scripts. The texts are those of this version: see IsIntact.
func Scripts(set *jobsetapi.JobSet) *corev1.ConfigMap {
	_, name := configMaps(set)
	if name == "" {
		return nil
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: set.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "flux-elastic"}},
		Immutable:  ptr.To(true),
		Data:       broker.Scripts(),
	}
}

// IsIntact reports whether a ConfigMap has the scripts that its name promises, and will always have them.
func IsIntact(scripts *corev1.ConfigMap) bool {
	return ptr.Deref(scripts.Immutable, false) && len(scripts.BinaryData) == 0 && scripts.Name == nameOf(scripts.Data)
}
