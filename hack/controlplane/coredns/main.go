// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Coredns is CoreDNS with the few plugins that the DNS of a local cluster needs. All plugins together
// would need a thousand more packages, such as the clients of three clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

// init sets the order in which the plugins handle requests, as CoreDNS's plugin.cfg does.
func init() { dnsserver.Directives = []string{"bind", "errors", "kubernetes", "template"} }

func main() { coremain.Run() }
