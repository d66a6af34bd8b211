// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// credentials are the keys of a cluster. They exist as long as the cluster.
type credentials struct {
	dir                       string
	caFile, certFile, keyFile string // of the API server
	serviceAccountKeyFile     string // signs tokens
	tokenFile                 string // the administrator's token, for the API server
	ca                        []byte // PEM
	token                     string
	authority                 *x509.Certificate
	authorityKey              crypto.Signer
}

// makeCredentials writes new keys into a directory. The API server's certificate is valid for the
// given addresses, in addition to the usual ones.
func makeCredentials(dir string, addresses ...net.IP) (*credentials, error) {
	c := &credentials{
		dir:                   dir,
		caFile:                filepath.Join(dir, "ca.crt"),
		serviceAccountKeyFile: filepath.Join(dir, "service-account.key"),
		tokenFile:             filepath.Join(dir, "tokens.csv"),
	}
	if err := c.makeCertificates(addresses); err != nil {
		return nil, fmt.Errorf("making certificates: %w", err)
	}
	if _, err := writeNewKey(c.serviceAccountKeyFile); err != nil {
		return nil, fmt.Errorf("making the service account key: %w", err)
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	c.token = hex.EncodeToString(secret)
	line := c.token + `,admin,admin,"system:masters"` + "\n"
	return c, os.WriteFile(c.tokenFile, []byte(line), 0o600)
}

func (c *credentials) makeCertificates(addresses []net.IP) (err error) {
	if c.authorityKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	c.authority = newAuthority("flux-elastic local cluster")
	der, err := x509.CreateCertificate(rand.Reader, c.authority, c.authority, c.authorityKey.Public(), c.authorityKey)
	if err != nil {
		return err
	}
	if c.ca, err = writePEM(c.caFile, "CERTIFICATE", der); err != nil {
		return err
	}
	c.certFile, c.keyFile, err = c.issue("apiserver", &x509.Certificate{
		Subject:  pkix.Name{CommonName: "kube-apiserver"},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		// 10.96.0.1 is the first address of the Service range. It belongs to the API server.
		IPAddresses: append([]net.IP{localhost, net.IPv4(10, 96, 0, 1)}, addresses...),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// localhost is the address on which the programs of a cluster listen.
var localhost = net.IPv4(127, 0, 0, 1)

// newAuthority returns the template of the certificate of an authority.
func newAuthority(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
}

// issue writes a new key, and a certificate that the cluster's authority has signed.
func (c *credentials) issue(name string, template *x509.Certificate) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(c.dir, name+".crt"), filepath.Join(c.dir, name+".key")
	key, err := writeNewKey(keyFile)
	if err != nil {
		return "", "", err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return "", "", err
	}
	template.NotBefore, template.NotAfter = c.authority.NotBefore, c.authority.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, c.authority, key.Public(), c.authorityKey)
	if err != nil {
		return "", "", err
	}
	_, err = writePEM(certFile, "CERTIFICATE", der)
	return certFile, keyFile, err
}

func writeNewKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	_, err = writePEM(path, "EC PRIVATE KEY", der)
	return key, err
}

func writePEM(path, kind string, der []byte) ([]byte, error) {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return data, os.WriteFile(path, data, 0o600)
}
