// Coredns is the DNS server of the lab's cluster: CoreDNS with those of its plugins that the
// lab's Corefile names. A build with all plugins takes several times as long.
//
// The versions of the modules that kubebox has too are those of kubebox. Go then compiles
// them once for both.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
