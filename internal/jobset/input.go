// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// input is what the objects of an attempt are made from, beside the name and the attempt.
type input struct {
	Spec        v1alpha2.MiniClusterSpec `json:"spec"`
	Runs        int32                    `json:"runs,omitempty"`
	MaximumSize int32                    `json:"maximumSize,omitempty"`
	// Certificate is a digest of spec.flux.curveCert, which is a secret, and not in Spec.
	Certificate string `json:"certificate,omitempty"`
}

// mostInput and mostTokens bound the bytes and the tokens of JSON that an input may have. MiniClusters have fewer
// (weight.Most). Whoever may change a JobSet may write any input there: a few bytes that unpack to millions of containers.
const (
	mostInput  = 256 << 10
	mostTokens = 32 << 10
)

// errTooLarge says that an input was not written by this project.
var errTooLarge = errors.New("it is larger than any MiniCluster may be")

// errOther says that an input is not that of its JobSet.
var errOther = errors.New("it is of another number of brokers")

// ErrCertificateEdited says that the certificate of an attempt was in the spec, and is not there any more.
var ErrCertificateEdited = errors.New("spec.flux.curveCert was edited")

// Remember records on a JobSet what the JobSet is made from, before the JobSet is created. Its files, and all that
// somebody deletes later, are made from that, also after the spec was edited.
func Remember(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet) error {
	in := input{Spec: *mc.Spec.DeepCopy(), Runs: mc.Status.Runs, MaximumSize: mc.Status.MaximumSize, Certificate: digest(mc.Spec.Flux.CurveCert)}
	in.Spec.Flux.CurveCert = ""
	text, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("writing what JobSet %q is made from: %w", set.Name, err)
	}
	packed, err := pack(text)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha2.InputAnnotation, packed)
	return nil
}

func pack(text []byte) (string, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(text); err != nil {
		return "", err
	}
	if err := zip.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// Remembered returns a MiniCluster as it was when its JobSet was made. A JobSet of an older version does not say that:
// the MiniCluster as it is now stands in for it.
func Remembered(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet) (*v1alpha2.MiniCluster, error) {
	text, remembers := set.Annotations[v1alpha2.InputAnnotation]
	if !remembers {
		return mc, nil
	}
	in, err := unpack(text)
	if err != nil {
		return nil, fmt.Errorf("reading annotation %s of JobSet %q: %w", v1alpha2.InputAnnotation, set.Name, err)
	}
	if in.Certificate != "" && in.Certificate != digest(mc.Spec.Flux.CurveCert) {
		return nil, ErrCertificateEdited
	}
	if in.Certificate != "" {
		in.Spec.Flux.CurveCert = mc.Spec.Flux.CurveCert
	}
	was := mc.DeepCopy()
	was.Spec, was.Status.Runs, was.Status.MaximumSize = in.Spec, in.Runs, in.MaximumSize
	if Size(was) != Brokers(set) {
		return nil, fmt.Errorf("annotation %s of JobSet %q: %w", v1alpha2.InputAnnotation, set.Name, errOther)
	}
	return was, nil
}

func unpack(text string) (in input, err error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return in, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return in, err
	}
	content, err := io.ReadAll(io.LimitReader(zip, mostInput+1))
	if err == nil {
		err = checkAmount(content)
	}
	if err != nil {
		return in, err
	}
	err = json.Unmarshal(content, &in)
	return in, err
}

// checkAmount returns an error for JSON with too many bytes or tokens, or that cannot be read.
func checkAmount(content []byte) error {
	if len(content) > mostInput {
		return errTooLarge
	}
	tokens := json.NewDecoder(bytes.NewReader(content))
	for range mostTokens {
		if _, err := tokens.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return errTooLarge
}

// digest is the same for the same text, and does not tell it; "" for none.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
