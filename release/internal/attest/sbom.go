// Package attest describes the content and the origin of a release, and signs both.
package attest

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"purelb.io/purelb/release/internal/source"
)

// Component is an item of an SBOM.
type Component struct {
	Name, Version string
	URL           string // its package URL (purl)
	SHA256        string // empty if unknown
	License       string // empty if unknown
	Purpose       string // SPDX's term, such as APPLICATION
}

// ProgramSBOM returns the SBOM of a compiled program. It lists the Go modules in the program, as
// recorded by the toolchain.
func ProgramSBOM(t source.Tree, name string, p source.Platform, binary, sha256 string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", name, err)
	}
	whole := Component{
		Name: name, Version: t.Version, SHA256: sha256, License: "Apache-2.0", Purpose: "APPLICATION",
		URL: fmt.Sprintf("pkg:golang/purelb.io/purelb@v%s?goos=%s&goarch=%s#cmd/%s", t.Version, p.OS, p.Arch, name),
	}
	parts := []Component{{
		Name: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go"), License: "BSD-3-Clause", Purpose: "LIBRARY",
		URL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	for _, module := range info.Deps {
		parts = append(parts, library(module))
	}
	return SBOM(t, strings.Join([]string{name, p.OS, p.Arch}, "-"), whole, parts)
}

func library(module *debug.Module) Component {
	if module.Replace != nil {
		module = module.Replace
	}
	return Component{
		Name: module.Path, Version: module.Version, Purpose: "LIBRARY",
		URL: fmt.Sprintf("pkg:golang/%s@%s", module.Path, module.Version),
	}
}

// SBOM returns an SPDX document in JSON, about whole and the parts that it needs.
func SBOM(t source.Tree, document string, whole Component, parts []Component) ([]byte, error) {
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      document + "-" + t.Version,
		DocumentNamespace: fmt.Sprintf("https://purelb.io/spdx/%s/%s-%s", t.Version, document, t.Revision),
		CreationInfo: &v2_3.CreationInfo{
			Created:  t.Time.Format("2006-01-02T15:04:05Z"),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "PureLB"}, {CreatorType: "Tool", Creator: "purelb-release-" + t.Version}},
		},
	}
	root := describe(whole)
	doc.Packages = append(doc.Packages, root)
	doc.Relationships = append(doc.Relationships, relation("DOCUMENT", common.TypeRelationshipDescribe, root.PackageSPDXIdentifier))
	for _, part := range parts {
		p := describe(part)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relation(root.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p.PackageSPDXIdentifier))
	}
	var b bytes.Buffer
	err := spdxjson.Write(doc, &b, spdxjson.Indent(" "), spdxjson.EscapeHTML(false))
	return b.Bytes(), err
}

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func describe(c Component) *v2_3.Package {
	const unknown = "NOASSERTION"
	p := &v2_3.Package{
		PackageName: c.Name, PackageVersion: c.Version,
		PackageSPDXIdentifier:   common.ElementID("Package-" + notInIDs.ReplaceAllString(c.Name+"-"+c.Version, "-")),
		PackageDownloadLocation: unknown,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: cmp.Or(c.License, unknown), PackageCopyrightText: unknown,
		PrimaryPackagePurpose: c.Purpose,
		PackageExternalReferences: []*v2_3.PackageExternalReference{
			{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: c.URL},
		},
	}
	if c.SHA256 != "" {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: c.SHA256}}
	}
	return p
}

func relation(from common.ElementID, kind string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to))}
}
