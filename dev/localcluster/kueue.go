// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// KueueConfig describes Kueue beside a cluster.
type KueueConfig struct {
	// Configuration is a part of Kueue's configuration file, config.kueue.x-k8s.io/v1beta2. The
	// cluster merges the part into the file that Kueue ships (JSON merge patch, RFC 7396), with
	// the integrations batch/job and jobset.x-k8s.io/jobset.
	Configuration string
}

const (
	// kueueName is the name of Kueue's program and process.
	kueueName      = "kueue"
	kueueNamespace = "kueue-system"
	kueueUser      = "system:serviceaccount:" + kueueNamespace + ":kueue-controller-manager"
	// Names by which Kueue finds the objects into which it writes its certificate authority.
	kueuePrefix  = "kueue-"
	kueueSecret  = kueuePrefix + "webhook-server-cert"
	kueueService = kueuePrefix + "webhook-service"
)

// Parts returns the parts that a cluster with this configuration has.
func (c *Config) Parts() []Part {
	var parts []Part
	if c.Real.Count > 0 {
		parts = append(parts, RealNodes)
	}
	if c.Kueue != nil {
		parts = append(parts, Kueue)
	}
	if c.Karpenter != nil {
		parts = append(parts, Karpenter)
	}
	return parts
}

// StartKueue starts Kueue beside the cluster, and returns when Kueue's webhooks answer. It first ends
// a Kueue that runs, and installs what is missing of Kueue's API. The API and the webhooks are those
// of Kueue's module in Go's module cache.
func (c *Cluster) StartKueue(ctx context.Context, binaries Binaries, config KueueConfig) error {
	k := &kueue{Cluster: c, dir: filepath.Join(c.Dir, "keys", kueueName), kubectl: binaries["kubectl"]}
	var err error
	if k.sources, err = Sources(ctx, binaries[kueueName]); err != nil {
		return err
	}
	if old, err := c.process(kueueName); err == nil {
		if err := old.stop(ctx); err != nil {
			return err
		}
	}
	if err := k.prepare(config); err != nil {
		return err
	}
	if err := k.install(ctx); err != nil {
		return fmt.Errorf("installing Kueue: %w", err)
	}
	args := []string{"--config=" + k.configFile(), "--kubeconfig=" + k.kubeconfig(), "--zap-log-level=2"}
	started, err := launch{name: kueueName, path: binaries[kueueName], args: args, again: true}.start(c.Dir)
	if err != nil {
		return err
	}
	if err := c.await(ctx, "Kueue", func() (bool, error) { return isReady(ctx, c.Address(portKueueHealth)), nil }, started); err != nil {
		return err
	}
	return k.serveVisibility(ctx)
}

// Sources returns the directory of the module of a program, in Go's module cache. It downloads the
// module if it is not there.
func Sources(ctx context.Context, program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", program, err)
	}
	module := info.Main.Path + "@" + info.Main.Version
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), toolchain) // not in a module
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the sources of %s: %w\n%s", module, withStderr(err), out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("finding the sources of %s: %w", module, err)
	}
	return found.Dir, nil
}

// kueue is Kueue beside a cluster.
type kueue struct {
	*Cluster
	dir     string // of the keys
	sources string // directory of Kueue's module
	kubectl string
	ca      []byte // PEM
}

func (k *kueue) kubeconfig() string { return filepath.Join(k.dir, "kubeconfig") }
func (k *kueue) configFile() string { return k.config("kueue.yaml") }

// prepare writes Kueue's files: keys, the kubeconfig and the configuration.
func (k *kueue) prepare(config KueueConfig) error {
	var err error
	if k.ca, err = os.ReadFile(filepath.Join(k.dir, "ca.crt")); errors.Is(err, os.ErrNotExist) {
		k.ca, err = k.makeKeys()
	}
	if err != nil {
		return fmt.Errorf("making Kueue's keys: %w", err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(k.Kubeconfig())
	if err != nil {
		return err
	}
	for _, user := range kubeconfig.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = kueueUser, []string{"system:masters"}
	}
	if err := clientcmd.WriteToFile(*kubeconfig, k.kubeconfig()); err != nil {
		return err
	}
	data, err := k.configuration(config)
	if err != nil {
		return fmt.Errorf("writing Kueue's configuration: %w", err)
	}
	return os.WriteFile(k.configFile(), data, 0o644)
}

// makeKeys makes an authority and a certificate for the webhooks. Kueue could make both, but not for
// an address. Kueue takes those that it finds if they have the names, and the kind of key, of its own.
func (k *kueue) makeKeys() (ca []byte, err error) {
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	authority := newAuthority("kueue-ca")
	authority.DNSNames = []string{"kueue-ca"}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if _, err := writePEM(filepath.Join(k.dir, "ca.key"), "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)); err != nil {
		return nil, err
	}
	issuer := &credentials{dir: k.dir, authority: authority, authorityKey: key}
	_, _, err = issuer.issue("tls", &x509.Certificate{
		Subject:     pkix.Name{CommonName: kueueService},
		DNSNames:    []string{kueueService + "." + kueueNamespace + ".svc"},
		IPAddresses: []net.IP{localhost},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	return writePEM(filepath.Join(k.dir, "ca.crt"), "CERTIFICATE", der)
}

// configuration returns the configuration that Kueue ships, with changes for this cluster, and with
// those that the caller wants.
func (k *kueue) configuration(config KueueConfig) ([]byte, error) {
	shipped, err := os.ReadFile(filepath.Join(k.sources, "config", "components", "manager", "controller_manager_config.yaml"))
	if err != nil {
		return nil, err
	}
	local := fmt.Sprintf(`
namespace: %s
leaderElection: {leaderElect: false}
health: {healthProbeBindAddress: %q}
webhook: {host: 127.0.0.1, port: %d, certDir: %q}
visibilityServer: {bindAddress: 127.0.0.1, bindPort: %d}
metrics: {bindAddress: "0"}
integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset]}
`, kueueNamespace, k.Address(portKueueHealth), k.Port+portKueueWebhook, k.dir, k.Port+portKueueVisibility)
	var merged map[string]any
	for _, text := range []string{string(shipped), local, config.Configuration} {
		var layer map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &layer); err != nil {
			return nil, err
		}
		merged = MergePatch(merged, layer)
	}
	return yaml.Marshal(merged)
}

// MergePatch applies a JSON merge patch (RFC 7396).
func MergePatch(target, patch map[string]any) map[string]any {
	merged := maps.Clone(target)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			inner, _ := merged[key].(map[string]any)
			merged[key] = MergePatch(inner, value)
		default:
			merged[key] = value
		}
	}
	return merged
}

// install creates what is missing of Kueue's namespace, certificates, API and webhooks.
func (k *kueue) install(ctx context.Context) error {
	config, err := k.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	definitions, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := k.objects(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Namespace:
			_, err = client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
		case *corev1.Secret:
			_, err = client.CoreV1().Secrets(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
		case *apiextensionsv1.CustomResourceDefinition:
			names = append(names, object.Name)
			_, err = definitions.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, object, metav1.CreateOptions{})
		case *admissionv1.MutatingWebhookConfiguration:
			_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, object, metav1.CreateOptions{})
		case *admissionv1.ValidatingWebhookConfiguration:
			_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, object, metav1.CreateOptions{})
		}
		if ignoreAlreadyExists(err) != nil {
			return err
		}
	}
	return k.await(ctx, "Kueue's API", func() (bool, error) { return established(ctx, definitions, names) })
}

// established reports whether the API server serves all definitions.
func established(ctx context.Context, client apiextensionsclient.Interface, names []string) (bool, error) {
	for _, name := range names {
		definition, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		served := false
		for _, condition := range definition.Status.Conditions {
			served = served || condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
		}
		if !served {
			return false, nil
		}
	}
	return true, nil
}

// objects returns the objects that Kueue needs in the cluster.
func (k *kueue) objects(ctx context.Context) ([]runtime.Object, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kueueNamespace, Name: kueueSecret}, Data: map[string][]byte{}}
	for _, name := range []string{"ca.crt", "ca.key", "tls.crt", "tls.key"} {
		var err error
		if secret.Data[name], err = os.ReadFile(filepath.Join(k.dir, name)); err != nil {
			return nil, err
		}
	}
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kueueNamespace}}, secret}
	for _, part := range []string{"crd", "webhook"} {
		shipped, err := k.kustomize(ctx, filepath.Join(k.sources, "config", "components", part))
		if err != nil {
			return nil, err
		}
		objects = append(objects, shipped...)
	}
	for _, object := range objects {
		k.adapt(object)
	}
	return objects, nil
}

// adapt lets the webhooks of an object be at the address of Kueue's process, and gives them the names
// that Kueue looks for.
func (k *kueue) adapt(object runtime.Object) {
	admission := func(c *admissionv1.WebhookClientConfig) {
		*c = admissionv1.WebhookClientConfig{URL: k.webhook(*c.Service.Path), CABundle: k.ca}
	}
	switch object := object.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		if conversion := object.Spec.Conversion; conversion != nil && conversion.Webhook != nil {
			path := *conversion.Webhook.ClientConfig.Service.Path
			conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: k.webhook(path), CABundle: k.ca}
		}
	case *admissionv1.MutatingWebhookConfiguration:
		object.Name = kueuePrefix + object.Name
		for i := range object.Webhooks {
			admission(&object.Webhooks[i].ClientConfig)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		object.Name = kueuePrefix + object.Name
		for i := range object.Webhooks {
			admission(&object.Webhooks[i].ClientConfig)
		}
	}
}

func (k *kueue) webhook(path string) *string {
	return new("https://" + k.Address(portKueueWebhook) + path)
}

// kustomize returns the objects of a kustomization.
func (k *kueue) kustomize(ctx context.Context, dir string) ([]runtime.Object, error) {
	out, err := exec.CommandContext(ctx, k.kubectl, "kustomize", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize %s: %w", dir, withStderr(err))
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	var objects []runtime.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(out)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", dir, err)
		}
		objects = append(objects, object)
	}
}
