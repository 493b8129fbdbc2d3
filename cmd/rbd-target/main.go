// Command rbd-target exports files and disks over NVMe/RDMA.
package main

func main() {}
