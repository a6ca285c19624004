/* The questions that tensorlang asks of isl, as functions of numbers, pointers and text, for WebAssembly.

A matrix crosses as one text of numbers: constants first, then dimensions, then (in answers) integer divisions. Functions
keep the sets that they are given; whoever was given a set or a text frees it. 0, or -1 for a truth value, means that
isl refused, and `said` tells why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <isl/aff.h>
#include <isl/ctx.h>
#include <isl/local_space.h>
#include <isl/mat.h>
#include <isl/options.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

#define EXPORT(name) __attribute__((export_name(#name))) name
#define ORDER isl_dim_cst, isl_dim_set, isl_dim_param, isl_dim_div
#define SHORT 10 /* digits of numbers that surely fit in a long of 32 bits, with their sign */

static isl_ctx *ctx;

void EXPORT(start)(void)
{
	ctx = isl_ctx_alloc();
	isl_options_set_on_error(ctx, ISL_ON_ERROR_CONTINUE);
}

/* isl may do at most so many operations after `restart`; 0 is any number. */
void EXPORT(limit)(int operations) { isl_ctx_set_max_operations(ctx, operations); }
void EXPORT(restart)(void) { isl_ctx_reset_operations(ctx); }

/* The reason of the last refusal, which is then forgotten; not to be freed. */
const char *EXPORT(said)(void)
{
	enum isl_error error = isl_ctx_last_error(ctx);
	const char *message = error == isl_error_none ? "no reason given" : isl_ctx_last_error_msg(ctx);
	isl_ctx_reset_error(ctx);
	return message ? message : error == isl_error_quota ? "maximal number of operations exceeded" : "unknown error";
}

void *EXPORT(take)(size_t bytes) { return malloc(bytes); }
void EXPORT(give)(void *memory) { free(memory); }

static isl_val *number(const char **at)
{
	size_t digits = strcspn(*at, " ");
	isl_val *value;
	if (digits < SHORT)
		value = isl_val_int_from_si(ctx, atol(*at));
	else {
		char *word = strndup(*at, digits);
		value = isl_val_read_from_str(ctx, word);
		free(word);
	}
	*at += digits + ((*at)[digits] == ' ');
	return value;
}

static isl_mat *matrix(const char **at, int rows, int columns)
{
	isl_mat *m = isl_mat_alloc(ctx, rows, columns);
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < columns; c++)
			m = isl_mat_set_element_val(m, r, c, number(at));
	return m;
}

/* Whether isl could write a number now: it can't where its operations are spent. */
int EXPORT(number_is_written)(const char *text)
{
	isl_val *value = isl_val_read_from_str(ctx, text);
	isl_val_free(value);
	return value ? 1 : -1;
}

/* The points of `dims` dimensions where equalities and then inequalities hold, whose numbers are in `text`. */
isl_basic_set *EXPORT(basic)(int dims, int equalities, int inequalities, const char *text)
{
	isl_mat *zero = matrix(&text, equalities, dims + 1), *positive = matrix(&text, inequalities, dims + 1);
	return isl_basic_set_from_constraint_matrices(isl_space_set_alloc(ctx, 0, dims), zero, positive, ORDER);
}

/* "rows columns number number ..": the equalities or else the inequalities. */
char *EXPORT(rows)(isl_basic_set *b, int equalities)
{
	isl_mat *m = equalities ? isl_basic_set_equalities_matrix(b, ORDER) : isl_basic_set_inequalities_matrix(b, ORDER);
	char *text = 0;
	size_t length;
	FILE *out;
	if (!m || !(out = open_memstream(&text, &length)))
		return 0;
	fprintf(out, "%d %d", (int) isl_mat_rows(m), (int) isl_mat_cols(m));
	for (int r = 0; r < isl_mat_rows(m); r++)
		for (int c = 0; c < isl_mat_cols(m); c++) {
			isl_val *value = isl_mat_get_element_val(m, r, c);
			char *digits = isl_val_to_str(value);
			fprintf(out, " %s", digits ? digits : "?");
			free(digits);
			isl_val_free(value);
		}
	fclose(out);
	isl_mat_free(m);
	return text;
}

isl_set *EXPORT(empty)(int dims) { return isl_set_empty(isl_space_set_alloc(ctx, 0, dims)); }

#define UNARY(name, To, From, f) To *EXPORT(name)(From *a) { return f(From##_copy(a)); }
#define BINARY(name, To, A, B, f) To *EXPORT(name)(A *a, B *b) { return f(A##_copy(a), B##_copy(b)); }
UNARY(basic_to_set, isl_set, isl_basic_set, isl_set_from_basic_set)
UNARY(affine_hull, isl_basic_set, isl_set, isl_set_affine_hull)
UNARY(compute_divs, isl_set, isl_set, isl_set_compute_divs)
UNARY(coalesce, isl_set, isl_set, isl_set_coalesce)
UNARY(make_disjoint, isl_set, isl_set, isl_set_make_disjoint)
BINARY(basic_intersect, isl_basic_set, isl_basic_set, isl_basic_set, isl_basic_set_intersect)
BINARY(basic_gist, isl_basic_set, isl_basic_set, isl_basic_set, isl_basic_set_gist)
BINARY(set_union, isl_set, isl_set, isl_set, isl_set_union)
BINARY(set_intersect, isl_set, isl_set, isl_set, isl_set_intersect)
BINARY(set_gist, isl_set, isl_set, isl_set, isl_set_gist)

isl_basic_set *EXPORT(basic_project)(isl_basic_set *a, int first, int n)
{
	return isl_basic_set_project_out(isl_basic_set_copy(a), isl_dim_set, first, n);
}
isl_set *EXPORT(set_project)(isl_set *a, int first, int n)
{
	return isl_set_project_out(isl_set_copy(a), isl_dim_set, first, n);
}
int EXPORT(basic_is_empty)(isl_basic_set *a) { return isl_basic_set_is_empty(a); }
int EXPORT(set_is_empty)(isl_set *a) { return isl_set_is_empty(a); }
int EXPORT(is_subset)(isl_set *a, isl_set *b) { return isl_set_is_subset(a, b); }

int EXPORT(count)(isl_set *a) { return isl_set_n_basic_set(a); }
isl_basic_set *EXPORT(piece)(isl_set *a, int k)
{
	isl_basic_set_list *all = isl_set_get_basic_set_list(a);
	isl_basic_set *one = isl_basic_set_list_get_basic_set(all, k);
	isl_basic_set_list_free(all);
	return one;
}

int EXPORT(divisions)(isl_basic_set *b) { return isl_basic_set_dim(b, isl_dim_div); }
isl_aff *EXPORT(division)(isl_basic_set *b, int k)
{
	isl_local_space *space = isl_basic_set_get_local_space(b);
	isl_aff *found = isl_local_space_get_div(space, k);
	isl_local_space_free(space);
	return found;
}
/* The denominator (0), the constant (1), the coefficient of dimension k (2) or of division k (3). */
char *EXPORT(of_division)(isl_aff *a, int part, int k)
{
	isl_val *value = part == 0 ? isl_aff_get_denominator_val(a)
		: part == 1 ? isl_aff_get_constant_val(a)
		: isl_aff_get_coefficient_val(a, part == 2 ? isl_dim_in : isl_dim_div, k);
	char *digits = isl_val_to_str(value);
	isl_val_free(value);
	return digits;
}

void EXPORT(division_free)(isl_aff *a) { isl_aff_free(a); }
void EXPORT(basic_free)(isl_basic_set *a) { isl_basic_set_free(a); }
void EXPORT(set_free)(isl_set *a) { isl_set_free(a); }
