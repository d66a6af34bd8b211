// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

// A manager with a configuration file serves its metrics by HTTPS, with the certificate of a directory, to those alone
// who have the shipped right to read them. It does so while another manager leads.
func TestSecureMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`apiVersion: config.flux-framework.org/v1alpha1
kind: ManagerConfiguration
leaderElect: true
leaderElectionNamespace: flux-elastic-system
metricsSecure: true
metricsCertDir: %s
metricsBindAddress: "0" # the command line has another
`, dir)
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "config.yaml": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leads := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "flux-elastic-system", Name: "manager.flux-framework.org"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &leads, RenewTime: &leads},
	}
	s.shared.Create(lease)
	t.Cleanup(func() { s.delete(lease) })
	manager, err := startManager(env.cluster.ManagerKubeconfig, jobSetEmbedded, "--config="+filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(manager.Stop)

	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	reader, other := s.account("reader"), s.account("other")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-metrics"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "flux-elastic-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "reader"}},
	}
	s.shared.Create(binding)
	t.Cleanup(func() { s.delete(binding) })
	eventually(t, func() error { // the API server knows the binding
		out, err := kubectl(s.ctx, "auth", "can-i", "get", "/metrics", "--as=system:serviceaccount:"+s.namespace+":reader")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	for name, tc := range map[string]struct {
		token, want string
	}{
		"nobody":        {"", "401 Unauthorized"},
		"a wrong token": {"x", "401 Unauthorized"},
		"no right":      {other, "403 Forbidden"},
		"the right":     {reader, "200 OK"},
	} {
		eventually(t, func() error { // the server of the metrics may start after that of the probes
			status, text, err := scrape(client, "https://"+manager.Metrics+"/metrics", tc.token)
			if err != nil {
				return err
			}
			if has := strings.Contains(text, "controller_runtime_"); status != tc.want || has != (tc.want == "200 OK") {
				return fmt.Errorf("%s: %s, with metrics: %v", name, status, has)
			}
			return nil
		})
	}
	if status, _, err := scrape(http.DefaultClient, "http://"+manager.Metrics+"/metrics", reader); status != "400 Bad Request" {
		t.Errorf("by HTTP: got %s, %v", status, err)
	}
}

// account returns the token of a new service account.
func (s *site) account(name string) (token string) {
	s.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	s.shared.Create(account)
	request := &authenticationv1.TokenRequest{}
	if err := env.client.SubResource("token").Create(s.ctx, account, request); err != nil {
		s.t.Fatal(err)
	}
	return request.Status.Token
}

func scrape(client *http.Client, url, token string) (status, text string, err error) {
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.Status, string(body), err
}
