// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"flag"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// Section are the settings of one subject.
type Section struct {
	Title    string
	Settings []Setting
}

// Setting is one setting: a flag, and a field of the configuration file.
type Setting struct {
	// Flag is the name of the flag.
	Flag string
	*Value
	// Meaning says what the setting does, and the unit of its value.
	Meaning string
}

// Field is the name of the field: that of the flag in camel case.
func (s *Setting) Field() string {
	words := strings.Split(s.Flag, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// Sections are all settings, by subject.
func Sections() []Section { return new(Options).sections() }

// sections returns all settings, and sets their defaults.
func (o *Options) sections() []Section {
	return []Section{
		{"MiniClusters", o.miniClusters()},
		{"Other controllers", o.controllers()},
		{"Fluxion", o.fluxion()},
		{"API server", o.apiServer()},
		{"Metrics, probes and profiles", o.servers()},
		{"Web page", o.dashboard()},
		{"Log", o.log()},
	}
}

func (o *Options) miniClusters() []Setting {
	return []Setting{
		{"workers", count(&o.Workers, 16, 1), "number of MiniClusters that are reconciled in parallel"},
		{"max-brokers", count(&o.MaxBrokers, 10000, 0), "largest number of brokers of a MiniCluster, at its largest size; 0: any number"},
		{"default-ttl", duration(&o.DefaultTTL, "0s"), "time after which a finished MiniCluster without ttlSecondsAfterFinished is deleted; 0s: never"},
		{"drain", toggle(&o.Drain), "let MiniClusters leave cordoned nodes, as those that are about to go, if their commands can go on elsewhere"},
		{"batch-node-selector", selector(&o.BatchNodes, ""), "label selector of the nodes that brokers may use; empty: all nodes"},
		{
			"topology-labels", newValue(&o.TopologyLevels, String, state.TopologyLabels(state.TopologyLevels), state.ParseTopologyLevels),
			"node labels of the topology, outermost first, with commas between them; placement.topologyKey names one",
		},
		{
			"binder", choice(&o.Binder, BinderAuto, BinderAuto, BinderGate, BinderDirect),
			"who binds pods to their nodes: auto (the API server if it has the policies of config/admission, else as gate), " +
				"or gate (kube-scheduler); direct is deprecated, and means auto",
		},
		{"ahead-pods", count(&o.AheadPods, 0, 0), "Deprecated: no pods are made before there is room for them"},
		{
			"starting-pods", count(&o.StartingPods, 100, 0),
			"number of pods of admitted MiniClusters that are still to be made, from which on no further one of their priority is " +
				"admitted; 0: any number",
		},
	}
}

func (o *Options) controllers() []Setting {
	return []Setting{
		{
			"jobset", choice(&o.JobSet, JobSetExternal, JobSetEmbedded, JobSetExternal),
			"who runs the JobSet controller: embedded (the manager, which also installs a missing JobSet API) or external (the cluster)",
		},
		{"beside-jobset", toggle(&o.BesideJobSet), "start with an embedded JobSet controller even if the cluster runs one"},
		{"beside-flux-operator", toggle(&o.BesideFluxOperator), "start even if the cluster runs the Flux Operator: both reconcile every MiniCluster"},
		{
			"kueue-namespaces", selector(&o.KueueNamespaces, "kubernetes.io/metadata.name notin (kube-system,kueue-system)"),
			"label selector of the namespaces in which Kueue grants quota to MiniClusters with the label " + v1alpha2.KueueQueueLabel +
				"; as Kueue's managedJobsNamespaceSelector",
		},
	}
}

func (o *Options) fluxion() []Setting {
	return []Setting{
		{
			"matcher", choice(&o.Matcher, MatcherEmbedded, MatcherEmbedded, MatcherFluxion),
			"who chooses the nodes of a MiniCluster: embedded (the manager) or fluxion (Fluxion's library; the program manager-fluxion can load it)",
		},
		{"fluxion-library", plain(&o.FluxionLibrary, "/usr/lib/flux/libreapi_cli.so"), "path of Fluxion's library, of flux-sched 0.52 or later"},
		{"fluxion-policy", choice(&o.FluxionPolicy, "lonode", "first", "high", "low", "hinode", "lonode", "locality"), "Fluxion's match policy"},
	}
}

func (o *Options) apiServer() []Setting {
	library := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(library)
	return []Setting{
		{
			config.KubeconfigFlagName, foreign(library, config.KubeconfigFlagName, String, ""),
			"path of a kubeconfig; empty: the environment variable KUBECONFIG, the service account of a pod, or ~/.kube/config",
		},
		{"kube-api-qps", number(&o.KubeAPIQPS, 500, -1), "requests per second to the API server, for each kind of object; 0 or -1: no limit"},
		{"kube-api-burst", count(&o.KubeAPIBurst, 1000, 1), "largest number of requests at once above kube-api-qps, for each kind of object"},
		{"leader-elect", toggle(&o.LeaderElect), "elect a leader, so that only one of several managers is active"},
		{"leader-election-namespace", plain(&o.LeaderElectionNamespace, ""), "namespace of the leader's lock; empty: the manager's own"},
	}
}

func (o *Options) servers() []Setting {
	return []Setting{
		{"metrics-bind-address", plain(&o.MetricsAddress, ":8080"), `address of /metrics; "0": none`},
		{"metrics-secure", toggle(&o.MetricsSecure), "serve the metrics by HTTPS, to those alone whose token has the right to get /metrics"},
		{"metrics-cert-dir", plain(&o.MetricsCertDir, ""), "directory with the files tls.crt and tls.key for metrics-secure; empty: a self-signed certificate"},
		{"health-probe-bind-address", plain(&o.HealthAddress, ":8081"), `address of /healthz and /readyz; "0": none`},
		{"pprof-bind-address", plain(&o.PprofAddress, ""), "address of /debug/pprof/, the profiles of Go, without authentication, so it has to be a loopback address; empty: none"},
	}
}

func (o *Options) dashboard() []Setting {
	return []Setting{
		{
			"dashboard-bind-address", plain(&o.DashboardAddress, ""),
			"loopback address of a web page that shows nodes, queues and MiniClusters, for example 127.0.0.1:8082; empty: none",
		},
		{
			"dashboard-insecure-viewer", toggle(&o.DashboardInsecureViewer),
			"show everything on the web page to everybody who reaches its address, without a token; only for a cluster on your own machine",
		},
	}
}

func (o *Options) log() []Setting {
	library := flag.NewFlagSet("", flag.ContinueOnError)
	o.Logging.BindFlags(library)
	return []Setting{
		{"zap-log-level", foreign(library, "zap-log-level", String, "info"), `what is logged: error, info, debug, or a number such as "4" for more`},
		{"zap-encoder", foreign(library, "zap-encoder", String, "json", "json", "console"), "format of the log"},
		{
			"zap-time-encoding", foreign(library, "zap-time-encoding", String, "rfc3339", "epoch", "millis", "nanos", "iso8601", "rfc3339", "rfc3339nano"),
			"format of times in the log",
		},
		{
			"zap-stacktrace-level", foreign(library, "zap-stacktrace-level", String, "error", "info", "error", "panic"),
			"lowest level with stack traces",
		},
		{"zap-devel", foreign(library, "zap-devel", Boolean, "false"), "for development: by default the level is debug, the format console, and warnings have stack traces"},
	}
}
