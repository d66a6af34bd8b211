// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Admin is a user who may do everything.
const Admin = "kubernetes-admin"

// Host is the address of every server for a rest.Config with the server's transport.
const Host = "http://world"

// Options are what a server can do differently.
type Options struct {
	// Scheme has the kinds for the direct client. Custom resources that it has not are unstructured.
	Scheme *runtime.Scheme
	// AutoDeliver delivers every event of a watch at once.
	AutoDeliver bool
}

// Server is an API server. All methods may be called at any time.
type Server struct {
	options Options

	mutex   sync.Mutex // held while a request is answered; nobody waits with it for anything
	random  *rand.Rand
	version uint64
	tables  []*table
	streams []*Stream
	log     []Entry
	// policies and quotas are what admission reads of the objects, made anew when these have changed.
	policies  policies
	addresses int // of Services, so far
	owners    owners
	collector *GarbageCollector // nil if nobody collects
	// emptying is that a namespace may be deleted, and not be empty yet.
	emptying bool
}

// Entry is one write that took effect. Before is nil for a creation, and After is nil once the object is gone. The
// objects may only be read: they are those that the server has.
type Entry struct {
	User        string
	Verb        string // create, update, patch, delete, evict, bind
	Kind        string
	Subresource string
	Key         types.NamespacedName
	Version     uint64
	Time        time.Time
	Before      client.Object
	After       client.Object
}

// builtinScheme has the built-in kinds. It is made once: its maps are only read.
var builtinScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
})

// New makes a server with the namespaces of a new cluster. The source makes UIDs and generated names.
func New(random *rand.Rand, options Options) *Server {
	if options.Scheme == nil {
		options.Scheme = builtinScheme()
	}
	s := &Server{options: options, random: random, owners: owners{}}
	for i := range builtin {
		s.tables = append(s.tables, newTable(&builtin[i]))
	}
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		s.mustCreate("namespaces", &namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return s
}

// Version is the resource version of the last write.
func (s *Server) Version() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.version
}

// Changed is the resource version of the last write of a kind; 0 if there was none.
func (s *Server) Changed(kind string) uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	last := uint64(0)
	for _, t := range s.tables {
		if t.Kind == kind {
			last = max(last, t.changed)
		}
	}
	return last
}

// Log returns all writes that took effect, except dry runs, from an index on.
func (s *Server) Log(from int) []Entry {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.log[min(from, len(s.log)):]
}

// Kinds are all kinds that the server has now.
func (s *Server) Kinds() []schema.GroupVersionKind {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	kinds := make([]schema.GroupVersionKind, len(s.tables))
	for i, t := range s.tables {
		kinds[i] = t.kind()
	}
	return kinds
}

// table finds a resource of an API; nil if the server does not have it.
func (s *Server) table(group, version, resource string) *table {
	for _, t := range s.tables {
		if t.Resource.Resource == resource && t.Group == group && (version == "" || t.Version == version) {
			return t
		}
	}
	return nil
}

// tableOf finds the resource of a kind.
func (s *Server) tableOf(kind schema.GroupVersionKind) *table {
	for _, t := range s.tables {
		if t.Kind == kind.Kind && t.Group == kind.Group && t.Version == kind.Version {
			return t
		}
	}
	return nil
}

// builtinTable finds a built-in resource by its name, which the server always has.
func (s *Server) builtinTable(resource string) *table {
	i := slices.IndexFunc(s.tables, func(t *table) bool { return t.Resource.Resource == resource && t.definition == nil })
	return s.tables[i]
}

// uid draws a UID: a random one of version 4, as the API server's.
func (s *Server) uid() types.UID {
	high, low := s.random.Uint64(), s.random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		high>>32, high>>16&0xffff, high&0xfff, 0x8000|low>>48&0x3fff, low&0xffffffffffff))
}

// generate draws a name: k8s.io/apiserver/pkg/storage/names.
func (s *Server) generate(base string) string {
	const letters, length, longest = "bcdfghjklmnpqrstvwxz2456789", 5, 63
	var name strings.Builder
	name.WriteString(base[:min(len(base), longest-length)])
	for range length {
		name.WriteByte(letters[s.random.IntN(len(letters))])
	}
	return name.String()
}

// now is the time as objects have it.
func now() metav1.Time { return metav1.Now().Rfc3339Copy() }

func (s *Server) mustCreate(resource string, object client.Object) {
	w := &write{server: s, user: Admin, verb: "create", table: s.builtinTable(resource)}
	w.key = client.ObjectKeyFromObject(object)
	object.GetObjectKind().SetGroupVersionKind(w.table.kind())
	if _, err := w.create(object); err != nil {
		panic(err)
	}
}
