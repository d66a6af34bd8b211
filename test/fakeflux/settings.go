// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// maxHosts is how many brokers an instance of the double may have.
const maxHosts = 1 << 16

// brokerOptions are those of flux start and flux broker.
var brokerOptions = syntax{"setattr,S=", "config-path,c=", "wrap=", "verbose,v", "broker-opts,o="}

func isWrap(arg string) bool { return strings.HasPrefix(arg, "--wrap=") }

// attributes are those that a broker may be given (flux-broker-attributes(7)); any
// other ends it, since flux-core 0.82.
var attributes = strings.Fields(`
	rundir rundir-cleanup statedir statedir-cleanup local-uri hostlist hostname
	broker.critical-ranks broker.boot-method broker.quorum broker.quorum-warn broker.shutdown-warn
	broker.shutdown-timeout broker.cleanup-timeout broker.unload-builtins-timeout broker.rc1_path
	broker.rc3_path broker.rc2_none broker.rc2_pgrp broker.exit-restart broker.module-nopanic
	broker.sd-notify broker.sd-stop-timeout broker.exit-norestart broker.recovery-mode
	conf.shell_initrc conf.shell_pluginpath config.path
	tbon.topo tbon.zmqdebug tbon.zmq_io_threads tbon.child_rcvhwm tbon.prefertcp tbon.interface-hint
	tbon.torpid_min tbon.torpid_max tbon.tcp_user_timeout tbon.connect_timeout tbon.fanout
	log-ring-size log-forward-level log-critical-level log-filename log-syslog-enable log-syslog-level
	log-stderr-mode log-stderr-level log-level
	content.backing-module content.hash content.dump content.restore cron.directory`)

// settings are what a broker is started with.
type settings struct {
	attributes map[string]string
	config     configuration
	hosts      []string // by rank
	rank       int
	quorum     int
	program    []string
}

// configuration is the part of broker.toml that counts.
type configuration struct {
	Resource  struct{ Path string }
	Bootstrap struct {
		CurveCert      string `toml:"curve_cert"`
		DefaultPort    int    `toml:"default_port"`
		DefaultBind    string `toml:"default_bind"`
		DefaultConnect string `toml:"default_connect"`
		EnableIPv6     bool   `toml:"enable_ipv6"`
		Hosts          []struct{ Host string }
	}
}

// readSettings reads the command line and the configuration as a broker does. Errors
// are in the words of Flux.
func readSettings(args []string) (settings, error) {
	given, program, err := parse(args, brokerOptions)
	if err != nil {
		return settings{}, fmt.Errorf("flux-broker: %w", err)
	}
	s := settings{attributes: map[string]string{"hostname": hostname()}, program: program}
	for _, text := range given["setattr"] {
		name, value, _ := strings.Cut(text, "=")
		if !slices.Contains(attributes, name) {
			return s, fmt.Errorf("flux-broker: %s: unknown attribute", name)
		}
		s.attributes[name] = value
	}
	if os.Getenv("FAKEFLUX_OLD") != "" { // before 0.82 a variable names the host, and the attribute counts for nothing
		s.attributes["hostname"] = cmp.Or(os.Getenv("FLUX_FAKE_HOSTNAME"), hostname())
	}
	host := s.attributes["hostname"]
	if err := s.readConfig(given.last("config-path")); err != nil {
		return s, fmt.Errorf("broker.crit[%s]: bootstrap: config: initialize: Config file error %w", host, err)
	}
	if s.rank = slices.Index(s.hosts, host); s.rank < 0 {
		return s, fmt.Errorf("broker.crit[%s]: bootstrap: config: initialize: Config file error [bootstrap]: %s not found in hosts", host, host)
	}
	if err := s.readQuorum(); err != nil {
		return s, err
	}
	if err := s.directories(); err != nil {
		return s, fmt.Errorf("flux-broker: %w", err)
	}
	return s, nil
}

// readConfig reads the files of a directory, or one file. Without any the broker is
// alone.
func (s *settings) readConfig(path string) error {
	if path != "" {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "broker.toml")
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := toml.Unmarshal(data, &s.config); err != nil {
			return err
		}
	}
	boot := &s.config.Bootstrap
	for _, entry := range boot.Hosts {
		hosts, err := hostlist.Decode(entry.Host, maxHosts)
		if err != nil {
			return fmt.Errorf("[bootstrap]: %w", err)
		}
		s.hosts = append(s.hosts, hosts...)
	}
	if len(s.hosts) == 0 {
		s.hosts = []string{s.attributes["hostname"]}
	}
	if len(s.hosts) > 1 {
		return checkCertificate(boot.CurveCert)
	}
	return nil
}

// checkCertificate wants one that others cannot read.
func checkCertificate(path string) error {
	if path == "" {
		return errors.New("[bootstrap]: curve_cert must be defined for size > 1")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("[bootstrap]: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("[bootstrap]: %s: permissions are too open", path)
	}
	return nil
}

// readQuorum checks broker.quorum: all brokers, where it is not set.
func (s *settings) readQuorum() error {
	s.quorum = len(s.hosts)
	text, ok := s.attributes["broker.quorum"]
	if ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(s.hosts) {
			return fmt.Errorf("flux-broker: Error parsing broker.quorum attribute: %s is not in the range 1-%d", text, len(s.hosts))
		}
		s.quorum = n
	}
	s.attributes["broker.quorum"] = strconv.Itoa(s.quorum)
	return nil
}

// directories are made where they are not given.
func (s *settings) directories() error {
	for _, name := range []string{"rundir", "statedir"} {
		if s.attributes[name] == "" {
			dir, err := os.MkdirTemp("", "flux-")
			if err != nil {
				return err
			}
			s.attributes[name] = dir
		}
		if err := os.MkdirAll(s.attributes[name], 0o700); err != nil {
			return err
		}
	}
	if s.attributes["local-uri"] == "" {
		s.attributes["local-uri"] = fmt.Sprintf("%s%s/local-%d", localScheme, s.attributes["rundir"], s.rank)
	}
	s.attributes["rank"], s.attributes["size"] = strconv.Itoa(s.rank), strconv.Itoa(len(s.hosts))
	s.attributes["hostlist"] = hostlist.Encode(s.hosts)
	s.attributes["version"] = version
	return nil
}

// network is that of brokers, as of net.Dial. Flux uses one family.
func (s *settings) network() string {
	if s.config.Bootstrap.EnableIPv6 {
		return "tcp6"
	}
	return "tcp4"
}

// bindAddress is where the lead listens. The host of default_bind may be an interface.
func (s *settings) bindAddress() string {
	if own := os.Getenv("FAKEFLUX_LEAD"); own != "" {
		return own
	}
	host, port, err := net.SplitHostPort(s.expand(s.config.Bootstrap.DefaultBind))
	if err != nil {
		return fmt.Sprintf(":%d", s.config.Bootstrap.DefaultPort)
	}
	if host == "*" {
		host = ""
	} else if found, err := net.InterfaceByName(host); err == nil {
		host = firstAddress(found, s.config.Bootstrap.EnableIPv6)
	}
	return net.JoinHostPort(host, port)
}

// firstAddress is the first of a family that is not of the link alone, and "", every address, where an interface has none.
func firstAddress(of *net.Interface, ipv6 bool) string {
	addresses, _ := of.Addrs()
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if ip := prefix.Addr(); err == nil && ip.Is6() == ipv6 && !ip.IsLinkLocalUnicast() {
			return ip.String()
		}
	}
	return ""
}

// connectAddress is where the others find it.
func (s *settings) connectAddress() string {
	if own := os.Getenv("FAKEFLUX_LEAD"); own != "" {
		return own
	}
	return s.expand(s.config.Bootstrap.DefaultConnect)
}

func (s *settings) expand(uri string) string {
	text := strings.TrimPrefix(uri, "tcp://")
	return strings.NewReplacer("%h", s.hosts[0], "%p", strconv.Itoa(s.config.Bootstrap.DefaultPort)).Replace(text)
}
