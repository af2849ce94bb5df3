// Coredns is the DNS server of the lab's cluster: CoreDNS with only the plugins that the lab's
// Corefile names. A build with all plugins takes several times as long.
//
// Modules that kubebox also requires have the same versions as there. So Go compiles them once for
// both.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
