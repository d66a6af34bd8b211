// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import "strings"

const third = "/api/v1/namespaces/${third}/"

// owned is a ConfigMap with owners, of which some block the deletion of the owner.
func owned(name string, owners ...string) Request {
	var references []string
	for _, owner := range owners {
		owner, blocks := strings.CutSuffix(owner, "!")
		reference := `{"apiVersion":"v1","kind":"ConfigMap","name":"` + owner + `","uid":"${` + owner + `.uid}"`
		if blocks {
			reference += `,"blockOwnerDeletion":true`
		}
		references = append(references, reference+"}")
	}
	return post(name, third+"configmaps", `{"metadata":{"name":"`+name+`","ownerReferences":[`+strings.Join(references, ",")+`]}}`)
}

// ends waits until a controller has deleted an object.
func ends(name string) Request {
	return Request{Name: "end of " + name, Path: third + "configmaps/" + name, Await: `"reason":"NotFound"`}
}

func deleted(name, propagation string) Request {
	return remove1("deletion of "+name, third+"configmaps/"+name, `{"propagationPolicy":"`+propagation+`"}`)
}

// collected are what the garbage collector and the namespace controller do.
var collected = []Request{
	without(post("third namespace", "/api/v1/namespaces", `{"metadata":{"name":"${third}"}}`), "metadata.annotations"),
	owned("o1"), owned("o2"), owned("o3"), owned("o4"), owned("o5"),
	owned("of-o1", "o1"), owned("of-of-o1", "of-o1"),
	deleted("o1", "Background"), ends("o1"), ends("of-o1"), ends("of-of-o1"),
	owned("of-o2", "o2!"), owned("of-of-o2", "of-o2!"),
	deleted("o2", "Foreground"), ends("o2"), ends("of-of-o2"), ends("of-o2"),
	owned("of-o3", "o3!"),
	deleted("o3", "Orphan"), ends("o3"), get("orphan", third+"configmaps/of-o3"),
	owned("of-both", "o4!", "o5"),
	deleted("o4", "Foreground"), ends("o4"), get("with the other owner", third+"configmaps/of-both"),
	post("held dependent", third+"configmaps", `{"metadata":{"name":"held","finalizers":["a.b/c"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o5","uid":"${o5.uid}","blockOwnerDeletion":true}]}}`),
	deleted("o5", "Foreground"),
	{Name: "dependent that is held", Path: third + "configmaps/held", Await: `"deletionTimestamp"`},
	get("owner that waits", third+"configmaps/o5"),
	patch("dependent is let go", merge, third+"configmaps/held", `{"metadata":{"finalizers":null}}`),
	ends("held"), ends("o5"), ends("of-both"),
	remove1("third namespace goes", "/api/v1/namespaces/${third}", `{}`),
	{Name: "end of the third namespace", Path: "/api/v1/namespaces/${third}", Await: `"reason":"NotFound"`},
}
