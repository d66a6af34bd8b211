// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"crypto/ecdh"
	"encoding/binary"
	"fmt"
	"io"
)

// Certificate returns a new CURVE key pair in the file format of `flux keygen`: a ZPL text
// (ZeroMQ RFC 4) with the keys in Z85 (ZeroMQ RFC 32). All brokers of an instance share the
// certificate, which is a secret. random must be a cryptographically secure source.
func Certificate(name string, random io.Reader) (string, error) {
	key, err := ecdh.X25519().GenerateKey(random)
	if err != nil {
		return "", fmt.Errorf("making a CURVE key: %w", err)
	}
	return fmt.Sprintf(`#  ZeroMQ CURVE **Secret** Certificate
#  DO NOT DISTRIBUTE

metadata
    name = %q
curve
    public-key = "%s"
    secret-key = "%s"
`, name, z85(key.PublicKey().Bytes()), z85(key.Bytes())), nil
}

const z85Digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

// z85 encodes bytes as text: every four bytes become five digits to the base 85, the highest
// digit first (ZeroMQ RFC 32). The number of bytes must be a multiple of four.
func z85(data []byte) string {
	out := make([]byte, 0, len(data)/4*5)
	for ; len(data) >= 4; data = data[4:] {
		value := binary.BigEndian.Uint32(data)
		for divisor := uint32(85 * 85 * 85 * 85); divisor > 0; divisor /= 85 {
			out = append(out, z85Digits[value/divisor%85])
		}
	}
	return string(out)
}
