package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// BenchmarkValidateOffline checks a thousand manifests: a hundred ServiceGroups and nine
// hundred Services.
func BenchmarkValidateOffline(b *testing.B) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "---\napiVersion: purelb.io/v2\nkind: ServiceGroup\nmetadata: {name: g%[1]d}\nspec: {remote: {v4pools: [{subnet: 10.%[1]d.0.0/16, pool: 10.%[1]d.0.0/24, aggregation: /32}]}}\n", i)
	}
	for i := range 900 {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Service\nmetadata: {name: s%d, annotations: {purelb.io/service-group: g%d}}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n", i, i%100)
	}
	start := time.Now()
	for b.Loop() {
		var out bytes.Buffer
		if code := run(b.Context(), []string{"validate", "-f", "-"}, strings.NewReader(text.String()), &out, &out); code != exitFine {
			b.Fatalf("exit code %d:\n%s", code, out.String())
		}
	}
	fmt.Printf("RESULT cli_validate_offline_1000_objects_s %.3f s\n", time.Since(start).Seconds()/float64(b.N))
}
