// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command serve serves the web page of a played cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flux-elastic/flux-elastic/controllers/dashboard"
	"github.com/flux-elastic/flux-elastic/dev/stage"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

func main() {
	settings := stage.Settings{Now: clock.RealClock{}.Now()}
	address := flag.String("address", "127.0.0.1:8082", "loopback address of the page")
	open := flag.Bool("open", false, "show all without a token; else the tokens are all, one and little")
	flag.IntVar(&settings.Nodes, "nodes", 149, "number of nodes")
	flag.IntVar(&settings.MiniClusters, "miniclusters", 60, "number of MiniClusters that have not finished")
	flag.Uint64Var(&settings.Seed, "seed", 1, "what chance depends on")
	flag.StringVar(&settings.Evil, "evil", "", "a text to put into names and messages")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *address, *open, settings)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string, open bool, settings stage.Settings) error {
	play := stage.New(settings)
	api := httptest.NewServer(play.API())
	defer api.Close()
	server, err := dashboard.New(dashboard.Options{
		Address: address, Open: open, Client: play, Config: &rest.Config{Host: api.URL, BearerToken: stage.TokenAll, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Clock: clock.RealClock{}, Topology: state.TopologyLevels,
	})
	if err != nil {
		return err
	}
	go func() {
		ticker := clock.RealClock{}.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C():
				play.Step(now)
			}
		}
	}()
	return server.Start(ctx)
}
