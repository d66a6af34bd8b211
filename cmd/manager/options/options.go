// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package options has the settings of the manager. One table of them (settings.go) makes the flags, reads the
// configuration file, and is what docs/configuration.md and the file's schema are made from.
package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/flux-elastic/flux-elastic/internal/state"
)

// Values of JobSet.
const (
	JobSetEmbedded = "embedded"
	JobSetExternal = "external"
)

// Values of Binder.
const (
	BinderAuto = "auto"
	BinderGate = "gate"
	// BinderDirect is deprecated, and means BinderAuto. MiniClusters that an older manager made with it are still bound so.
	BinderDirect = "direct"
)

// Values of Matcher.
const (
	MatcherEmbedded = "embedded"
	MatcherFluxion  = "fluxion"
)

// Options are the settings of the manager. The table of settings has the meaning of each.
type Options struct {
	// Version asks for the version alone. Only the command line has it.
	Version bool

	AheadPods       int
	BatchNodes      labels.Selector
	Binder          string
	DefaultTTL      time.Duration
	Drain           bool
	MaxBrokers      int
	StartingPods    int
	TopologyLevels  []state.TopologyLevel
	Workers         int
	KueueNamespaces labels.Selector

	JobSet             string
	BesideJobSet       bool
	BesideFluxOperator bool

	Matcher        string
	FluxionLibrary string
	FluxionPolicy  string

	KubeAPIQPS              float64
	KubeAPIBurst            int
	LeaderElect             bool
	LeaderElectionNamespace string

	MetricsAddress string
	MetricsSecure  bool
	MetricsCertDir string
	HealthAddress  string
	PprofAddress   string

	DashboardAddress        string
	DashboardInsecureViewer bool

	Logging zap.Options

	config string // the path of the configuration file
}

// Parse reads the settings. A flag on the command line wins over the configuration file, and the file wins over the
// default. The error is flag.ErrHelp if the command line asks for help.
func Parse(args []string) (*Options, error) {
	o, _, flags := build()
	if err := parseFlags(flags, args); err != nil || o.Version {
		return o, err
	}
	if o.config != "" {
		var err error
		if o, err = parseAll(o.config, args); err != nil {
			return nil, err
		}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	return o, nil
}

// QPS is the limit of client-go, which has none below 0, and takes 0 for its own default.
func (o *Options) QPS() float32 {
	if o.KubeAPIQPS == 0 {
		return -1
	}
	return float32(o.KubeAPIQPS)
}

// parseAll reads a configuration file, and then the command line again.
func parseAll(path string, args []string) (*Options, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	o, sections, flags := build()
	if err := read(file, sections); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return o, parseFlags(flags, args)
}

// build returns the defaults, and what changes them: the table of settings and the flags.
func build() (*Options, []Section, *flag.FlagSet) {
	o := &Options{}
	sections := o.sections()
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned
	flags.StringVar(&o.config, "config", "", "")
	flags.BoolVar(&o.Version, "version", false, "")
	for _, section := range sections {
		for _, s := range section.Settings {
			flags.Var(s.Value, s.Flag, s.Meaning)
		}
	}
	return o, sections, flags
}

func parseFlags(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: a flag and its value are one argument, as in --flag=value", flags.Arg(0))
	}
	return nil
}

// check returns an error for settings that do not go together.
func (o *Options) check() error {
	if o.MetricsCertDir != "" && !o.MetricsSecure {
		return errors.New("--metrics-cert-dir needs --metrics-secure: without TLS no certificate is used")
	}
	if o.DashboardInsecureViewer && o.DashboardAddress == "" {
		return errors.New("--dashboard-insecure-viewer needs --dashboard-bind-address")
	}
	if o.PprofAddress != "" && !isLoopback(o.PprofAddress) {
		return fmt.Errorf("--pprof-bind-address=%s has to be a loopback address and a port, such as 127.0.0.1:6060: who reads profiles reads memory",
			o.PprofAddress)
	}
	return nil
}

// isLoopback reports whether only processes of this machine, or pod, reach an address with a port.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// Usage prints all flags, with their defaults.
func Usage(w io.Writer) {
	fmt.Fprint(w, `manager runs the controllers of flux-elastic.

  --config=FILE
        a configuration file; flags win over its fields (docs/configuration.md)
  --version
        print the version, and end
`)
	_, sections, _ := build()
	for _, section := range sections {
		fmt.Fprintf(w, "\n%s\n", section.Title)
		for _, s := range section.Settings {
			fmt.Fprintf(w, "  --%s=%s\n        %s\n", s.Flag, s.Default, s.Meaning)
		}
	}
}
