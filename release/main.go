// Release makes and publishes releases of PureLB: images, chart, manifests and the plugin for
// kubectl, with lists of their content and their origin.
//
// It needs Go and the modules of the tree, but neither a container engine nor root. The result
// depends only on the commit, the version, the registry and the version of Go.
//
// ko, by which goreleaser makes images, begins with a base image of a registry. These images have no
// base, and no registry is asked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"purelb.io/purelb/release/internal/chart"
	"purelb.io/purelb/release/internal/source"
)

const usage = `usage:
  release build -version X [flags]      make a release
  release publish -registry R [flags]   push the images and the chart of a release
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("say what to do\n%s", usage)
	}
	switch args[0] {
	case "build":
		return runBuild(ctx, args[1:], log)
	case "publish":
		return runPublish(ctx, args[1:], log)
	}
	return fmt.Errorf("%q is nothing that it does\n%s", args[0], usage)
}

func runBuild(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("release build", flag.ContinueOnError)
	version := flags.String("version", "", "version of the release, as 1.2.3")
	b := builder{log: log}
	root := flags.String("tree", "..", "checkout of PureLB")
	flags.StringVar(&b.out, "out", "", "new folder for the release")
	flags.StringVar(&b.registry, "registry", chart.Registry, "where the images will be: REGISTRY/allocator and so on")
	flags.StringVar(&b.downloads, "downloads", "https://github.com/purelb/purelb/releases/download", "where the files will be: DOWNLOADS/vVERSION/FILE")
	flags.StringVar(&b.builderID, "builder", "https://purelb.io/make-release", "who builds, as a URI in the provenance")
	images := flags.String("image-platforms", "linux/amd64,linux/arm64", "platforms of the images")
	plugins := flags.String("plugin-platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "platforms of kubectl-purelb")
	dirty := flags.Bool("dirty", false, "allow changes in the tree that are not committed")
	err := flags.Parse(args)
	if err == nil {
		b.images, err = source.ParsePlatforms(*images)
	}
	if err == nil {
		b.plugins, err = source.ParsePlatforms(*plugins)
	}
	if err == nil {
		b.tree, err = source.Read(ctx, *root, *version)
	}
	switch {
	case err != nil:
		return err
	case b.tree.Dirty && !*dirty:
		return errors.New("the tree has changes that are not committed, so nobody else could build the same: commit them, or say -dirty for a trial")
	case b.out == "":
		return errors.New("-out is missing: name a new folder")
	}
	return b.build(ctx)
}

func runPublish(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("release publish", flag.ContinueOnError)
	p := publisher{log: log}
	flags.StringVar(&p.dir, "dir", "", "folder of the release")
	flags.StringVar(&p.registry, "registry", chart.Registry, "where to push: the registry that the release was built for")
	flags.StringVar(&p.key, "key", "", "PEM file with the private key that signs; none: nothing is signed")
	flags.BoolVar(&p.insecure, "insecure", false, "speak HTTP to the registry")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.dir == "" {
		return errors.New("-dir is missing: name the folder that \"release build\" made")
	}
	return p.publish(ctx)
}
