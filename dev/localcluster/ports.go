// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// DefaultPort is the default of a cluster's first port.
const DefaultPort = 6550

// Ports of a cluster, counted from the first one.
const (
	portAPIServer = iota
	portEtcd
	portEtcdPeer
	// PortControllerManager, PortScheduler and PortKwok serve the metrics of these programs.
	PortControllerManager
	PortScheduler
	PortKwok
	// PortMetrics, PortHealth and PortDashboard are for a manager that runs beside the cluster.
	PortMetrics
	PortHealth
	PortDashboard
	portKueueWebhook
	portKueueHealth
	portKueueVisibility
	portKarpenterMetrics
	portKarpenterHealth
	portsPerCluster
)

// chosen are the first ports that choosePorts has chosen for clusters of this process: the programs of one that starts do
// not listen yet.
var chosen sync.Map

// choosePorts returns the first one of consecutive free ports: the given port, or any if that is 0.
func choosePorts(first int) (int, error) {
	if first != 0 {
		if busy := busyPort(first); busy != 0 {
			return 0, fmt.Errorf("port %d of 127.0.0.1 is in use; a cluster needs %d ports from PORT (%d) on: choose another PORT",
				busy, portsPerCluster, first)
		}
		return first, nil
	}
	for range 100 { // no two clusters share a port of which one does not listen yet
		first = 20000 + portsPerCluster*rand.IntN(12000/portsPerCluster)
		if busyPort(first) != 0 {
			continue
		}
		if _, taken := chosen.LoadOrStore(first, true); !taken {
			return first, nil
		}
	}
	return 0, errors.New("finding free ports: none in a hundred tries")
}

func busyPort(first int) int {
	for port := first; port < first+portsPerCluster; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return port
		}
		_ = listener.Close()
	}
	return 0
}
