// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Coredns is CoreDNS with the few plugins that the DNS of a local cluster takes. With
// all of them it is built from a thousand packages more: the clients of three clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

// init says in which order the plugins answer, as CoreDNS's plugin.cfg does.
func init() { dnsserver.Directives = []string{"bind", "errors", "kubernetes", "template"} }

func main() { coremain.Run() }
