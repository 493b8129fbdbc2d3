//go:build cgo && !nordma

#define _GNU_SOURCE
#include "load_linux.h"
#include "shim_linux.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

struct ibv_functions ibv;
struct rdma_functions rdma;

/* symbol finds the version of a function that abi_linux.h describes. */
static void *symbol(void *lib, const char *name, const char *version)
{
#ifdef __GLIBC__
	return dlvsym(lib, name, version);
#else
	(void)version;
	return dlsym(lib, name);
#endif
}

const char *shim_load(const char **why)
{
	*why = NULL;
	/* The objects of a device that was removed can then be freed. */
	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
	const char *name = "libibverbs.so.1";
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		*why = dlerror();
		return name;
	}
#define FIND(prefix, version, table, function)                                 \
	*(void **)&table.function = symbol(lib, prefix #function, version);    \
	if (!table.function)                                                   \
		return prefix #function;
#define FIND_1_1(result, function, args) FIND("ibv_", "IBVERBS_1.1", ibv, function)
#define FIND_1_0(result, function, args) FIND("ibv_", "IBVERBS_1.0", ibv, function)
	IBV_FUNCTIONS(FIND_1_1)
	IBV_FUNCTIONS_1_0(FIND_1_0)
	name = "librdmacm.so.1";
	lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		*why = dlerror();
		return name;
	}
#define FIND_CM(result, function, args) FIND("rdma_", "RDMACM_1.0", rdma, function)
	RDMA_FUNCTIONS(FIND_CM)
	return NULL;
}

int shim_errno(void) { return errno ? errno : EIO; }

int shim_result(int rc)
{
	if (rc == -1)
		return shim_errno();
	return rc < 0 ? -rc : rc;
}
