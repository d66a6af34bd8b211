// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"debug/buildinfo"
	"io"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
)

// artifact is what an SBOM describes.
type artifact struct {
	name     string
	purpose  string // as SPDX calls it
	platform Platform
	sum      string // SHA-256 in hexadecimal
	program  string // path of the program in it
}

// unknown is what SPDX says where nothing is known.
const unknown = "NOASSERTION"

// writeSBOM writes the SBOM of an artifact in SPDX's JSON.
func (s *Source) writeSBOM(a artifact, dir string) error {
	info, err := buildinfo.ReadFile(a.program)
	if err != nil {
		return err
	}
	return create(filepath.Join(dir, a.platform.file(a.name, ".spdx.json")), func(w io.Writer) error {
		return spdxjson.Write(s.sbom(a, info), w, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
	})
}

// sbom lists the Go modules of the program, as the program says them.
func (s *Source) sbom(a artifact, info *debug.BuildInfo) *spdx.Document {
	name := a.platform.file(a.name, "")
	whole := &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: "Artifact", PackageVersion: s.Version, PrimaryPackagePurpose: a.purpose,
		PackageChecksums:        []spdx.Checksum{{Algorithm: spdx.SHA256, Value: a.sum}},
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
	}
	own := library(&debug.Module{Path: info.Main.Path, Version: s.Version})
	own.PackageDownloadLocation = "git+https://" + module + "@" + s.Revision
	own.PackageLicenseDeclared, own.PrimaryPackagePurpose = "Apache-2.0", "APPLICATION"
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name + "-" + s.Version,
		DocumentNamespace: "https://" + module + "/spdx/" + name + "-" + a.sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []spdx.Creator{{CreatorType: "Organization", Creator: authors}, {CreatorType: "Tool", Creator: "flux-elastic-release-" + s.Version}},
			Created:  s.Time.Format(time.RFC3339),
		},
		Packages:      []*spdx.Package{whole, own},
		Relationships: []*spdx.Relationship{relation("DOCUMENT", "DESCRIBES", "Artifact"), relation("Artifact", "CONTAINS", own.PackageSPDXIdentifier)},
	}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	for _, dep := range append([]*debug.Module{{Path: "stdlib", Version: goVersion}}, info.Deps...) {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		p := library(dep)
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships, relation(own.PackageSPDXIdentifier, "DEPENDS_ON", p.PackageSPDXIdentifier))
	}
	return document
}

// other matches what an identifier of SPDX must not have.
var other = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// library describes a Go module.
func library(m *debug.Module) *spdx.Package {
	p := &spdx.Package{
		PackageName: m.Path, PackageSPDXIdentifier: spdx.ElementID("Module-" + other.ReplaceAllString(m.Path, "-")), PackageVersion: m.Version,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: spdx.CategoryPackageManager, RefType: spdx.PackageManagerPURL,
			Locator: "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B"),
		}},
		PrimaryPackagePurpose:   "LIBRARY",
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
	}
	if m.Sum != "" {
		p.PackageSourceInfo = "go.sum: " + m.Sum
	}
	return p
}

func relation(a spdx.ElementID, kind string, b spdx.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: spdx.DocElementID{ElementRefID: a}, Relationship: kind, RefB: spdx.DocElementID{ElementRefID: b}}
}
