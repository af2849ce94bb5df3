package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
)

// BenchmarkCreate measures, for Services created one after the other, the time
// from the create request to the address in the Service's status, and to the
// address on a node's interface. They are for information: absolute times on a
// shared machine.
func BenchmarkCreate(b *testing.B) {
	const services = 40
	var toAddress, toInterface []time.Duration
	for b.Loop() {
		a, i := createOneByOne(b, services)
		toAddress, toInterface = append(toAddress, a...), append(toInterface, i...)
	}
	fmt.Printf("RESULT create_to_address_p50_ms %.1f ms\n", median(toAddress))
	fmt.Printf("RESULT create_to_interface_p50_ms %.1f ms\n", median(toInterface))
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}

func createOneByOne(b *testing.B, n int) (toAddress, toInterface []time.Duration) {
	w := newWorld(b)
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		began := time.Now()
		w.apply(service(name, "local"))
		for len(kube.Addresses(w.service(name))) < 2 {
			time.Sleep(time.Millisecond)
		}
		toAddress = append(toAddress, time.Since(began))
		for _, a := range kube.Addresses(w.service(name)) {
			for len(w.holders(a)) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		toInterface = append(toInterface, time.Since(began))
	}
	return toAddress, toInterface
}
